//! The figures that the litmus bench promises.
fn main() {
    divan::main();
}
