//! quick
use crashproof_litmus::answer::Options;
fn main() {
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        if a == "--crashes" {
            options.crashes = args.next().unwrap().parse().unwrap();
            continue;
        }
        if a == "--eadr" {
            options.platform = px86::Platform::Eadr;
            continue;
        }
        let src = std::fs::read_to_string(&a).unwrap();
        match crashproof_litmus::parse(&src) {
            Ok(t) => println!(
                "{}",
                crashproof_report::litmus_json::object(
                    &a,
                    &t,
                    &if std::env::var("ENGINE").is_ok_and(|e| e == "lazy") {
                        crashproof_explore::lazy::run(&t, &options)
                    } else {
                        crashproof_exhaustive::run(&t, &options)
                    }
                )
            ),
            Err(e) => {
                let (l, c) = e.position(&src);
                println!("{a}:{l}:{c}: {e}");
            }
        }
    }
}
