/** Work SECONDS: two threads that compute; each piece is a heartbeat, by a native method (heartbeat.c). */
public final class Work {
    static native void heartbeat();

    static volatile double sink;

    static void work(long end) {
        while (System.nanoTime() < end) {
            double sum = 0;
            for (int i = 1; i < 2_000_000; i++)
                sum += 1.0 / i;
            sink = sum;
            heartbeat();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.loadLibrary("heartbeat");
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        System.out.println("cpus " + Runtime.getRuntime().availableProcessors());
        Thread[] threads = {new Thread(() -> work(end)), new Thread(() -> work(end))};
        for (Thread thread : threads)
            thread.start();
        for (Thread thread : threads)
            thread.join();
    }
}
