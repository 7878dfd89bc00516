use pinfold_linux::{calibrate, topology};
fn main() {
    let t = topology::read(&topology::Source::Live).unwrap();
    let quick = std::env::args().nth(1).is_some();
    let begin = std::time::Instant::now();
    let c = calibrate::measure(
        &t,
        if quick {
            calibrate::Thoroughness::Quick
        } else {
            calibrate::Thoroughness::Full
        },
        &mut |s| eprintln!("{:.1} {s}", begin.elapsed().as_secs_f64()),
    )
    .unwrap();
    println!("freq {:?}", c.frequency);
    for i in &c.instruction {
        println!("cpi {:.3} {:.2}", i.value * c.frequency.value, i.spread);
    }
    for p in &c.curve {
        println!(
            "{:>10} {:7.2} ns {:6.1} cyc spread {:.2} n {}",
            p.bytes >> 10,
            p.latency.value * 1e9,
            p.latency.value * c.frequency.value,
            p.latency.spread,
            p.latency.pieces
        );
    }
    println!(
        "mlp {:?} foreseen {:?} huge {:?} stolen {:?}",
        c.parallelism, c.foreseen, c.huge_share, c.stolen
    );
    for t in &c.translation {
        println!(
            "pages {:>6} small {:.2} huge {:.2} diff cyc {:.1}",
            t.pages,
            t.small.value * 1e9,
            t.huge.value * 1e9,
            (t.small.value - t.huge.value) * c.frequency.value
        );
    }
    for (r, p) in &c.pairs {
        println!("{r:?} {p:?}");
    }
    for b in &c.bandwidth {
        println!(
            "{:?} cores {} {:.2} GB/s spread {:.2}",
            b.traffic,
            b.cores,
            b.rate.value / 1e9,
            b.rate.spread
        );
    }
    for l in calibrate::curve::levels(&c.curve) {
        println!("{l:?}");
    }
    println!("total {:.1}", begin.elapsed().as_secs_f64());
}
