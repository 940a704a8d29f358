// Runs uninstrumented: nothing would load the runtime for it.
fn main() {
    println!("cargo::rustc-env=BUILT_BY_SCRIPT=1");
}
