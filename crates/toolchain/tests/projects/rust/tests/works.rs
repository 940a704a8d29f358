#[test]
fn works() {
    let r = small::record();
    small::intrinsics(r);
    assert_eq!(small::assembly(r), 7);
}
