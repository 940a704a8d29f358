//! Build scripts run uninstrumented.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
