import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/** A service at a port of this machine: Service PORT. It answers with a hash, and counts its answers. */
final class Service {
    private static final byte[] DATA = new byte[128 << 10];
    private static final String PADDING = ".".repeat(2048);
    private static final AtomicLong ANSWERS = new AtomicLong();

    public static void main(String[] words) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 0);
        server.createContext("/answers", exchange -> answer(exchange, number()));
        server.createContext("/", exchange -> answer(exchange, hash() + PADDING));
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }

    private static String number() {
        double now = System.currentTimeMillis() / 1000.0;
        return String.format(Locale.ROOT, "answers %d at %.3f%n", ANSWERS.get(), now);
    }

    private static String hash() {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(DATA);
            digest.update(Long.toString(ANSWERS.incrementAndGet()).getBytes());
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void answer(HttpExchange exchange, String text) throws IOException {
        byte[] body = text.getBytes();
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
