#[test]
fn the_pair_is_whole() {
    let pair = tests::open("pair.pool");
    assert!(pair.right == 0 || pair.left == 7);
    pair::store(pair);
}
