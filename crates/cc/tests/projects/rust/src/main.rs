fn main() {
    assert_eq!(env!("BUILT_BY_SCRIPT"), "1");
    let r = small::record();
    small::intrinsics(r);
    assert_eq!(small::assembly(r), 7);
}
