//! Checks the promise of lazy exploration: a recovery that reads a commit flag first is run at most twice per failure
//! point, however many contents the crash may have left.

#[path = "support/array.rs"]
mod array;

use array::Array;

#[test]
fn two_recoveries_a_failure_point_instead_of_nine_to_the_eighth() {
    let explored = Array { length: 64 }.explore();
    let counts: Vec<(&str, u64)> =
        explored.failure_points.iter().map(|point| (point.eager.as_str(), point.recoveries)).collect();
    // Before the first flush, each of 8 lines holds a prefix of its 8 stores, and the flag is not set. Before the
    // flag's own flush only the flag is open.
    assert_eq!(counts, [(9u64.pow(8).to_string().as_str(), 1), ("2", 2)]);
    assert_eq!(explored.figures.failure_points, 2);
    assert_eq!(explored.figures.eager_states.to_string(), (9u64.pow(8) + 2).to_string());
}

#[test]
fn the_work_does_not_depend_on_what_may_be_lost() {
    for length in (8..=64).step_by(8) {
        let explored = Array { length }.explore();
        assert!(explored.failure_points.iter().all(|point| point.recoveries <= 2));
        assert_eq!(explored.figures.recoveries, 3, "for {length} integers");
    }
}
