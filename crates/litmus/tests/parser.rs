//! The parser: what it accepts, what it says about what it does not accept, and that it never panics.

use crashproof_litmus::{Op, parse};
use proptest::prelude::*;
use px86::{Domain, Line};

fn error(source: &str) -> (usize, usize, String) {
    let error = parse(source).expect_err("this is wrong");
    let (line, column) = error.position(source);
    (line, column, error.message)
}

#[test]
fn the_example_of_the_language_reference() {
    let test = parse(
        "litmus commit-store
         line { data }                 // locations that share a cache line
         line { flag, count }
         init { count = 3 }            # everything else starts at 0
         thread { data = 1; clwb data; sfence; flag = 1; }
         thread {
           r0 = flag;
           if (r0 == 1) { count = r0 + 1; } else { mfence; }
           r1 = cas(count, 3, 7);
           r2 = faa(count, 1);
           r3 = xchg(count, 4);
           clflush count; clflushopt flag;
           movnt data, 5;
           repeat 2 { count = count0 + 1; }
         }
         recover { a = flag; b = data; assert !(a == 1 && b == 0); }
         forbidden (flag == 1 && data == 0)
         allowed (flag == 0 &&
                  data == 1)",
    )
    .unwrap();
    assert_eq!(test.name, "commit-store");
    assert_eq!(test.lines, 2);
    let addresses: Vec<u64> = test.locations.iter().map(|location| location.address).collect();
    assert_eq!(addresses, [0, 64, 72]);
    assert_eq!(test.locations[2].init, 3);
    let stores = test.threads[1].instructions.iter().filter(|i| matches!(i.op, Op::Store(..)));
    assert_eq!(stores.count(), 3, "one under `if`, two from `repeat 2`");
    assert_eq!(test.queries[1].text, "flag == 0 && data == 1");
}

#[test]
fn a_line_may_have_a_persistence_domain_of_its_own() {
    let test = parse("litmus t line { a } line eadr { b, eadr } line adr { c }").unwrap();
    assert_eq!(test.domains, [None, Some(Domain::Eadr), Some(Domain::Adr)]);
    let survives = |default| {
        let platform = test.platform(default, Line(7));
        [7, 8, 9].map(|line| platform.cache_survives(Line(line)))
    };
    assert_eq!(survives(Domain::Adr), [false, true, false]);
    assert_eq!(survives(Domain::Eadr), [true, true, false]);
}

#[test]
fn numbers_are_64_bit_and_wrap() {
    let value = |expression: &str| {
        let source = format!("litmus t line {{ x }} thread {{ x = {expression}; }}");
        let test = parse(&source).unwrap();
        let Op::Store(_, value) = &test.threads[0].instructions[0].op else { panic!("a store") };
        value.eval(&[0; 4])
    };
    assert_eq!(value("0xffffffffffffffff"), -1);
    assert_eq!(value("9223372036854775807 + 1"), i64::MIN);
    assert_eq!(value("1 << 65"), 2);
    assert_eq!(value("-8 >> 1"), -4);
    assert_eq!(value("1 | 2 == 2"), 1, "as in C, == binds tighter than |");
    assert_eq!(value("2 + 3 * 4 - 1"), 13);
    assert_eq!(value("!5 + !0"), 1);
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    let start = "litmus t\nline { x, y }\n";
    let cases = [
        ("line { x }", (1, 1, "expected `litmus` and the test's name, found the keyword `line`")),
        (
            "litmus",
            (
                1,
                7,
                "expected the test's name: letters, digits, `_`, `+`, `-`, `.`, found the end of the file",
            ),
        ),
    ];
    for (source, (line, column, message)) in cases {
        assert_eq!(error(source), (line, column, message.to_owned()));
    }
    let cases = [
        ("thread { x = 1 y = 2; }", 16, "expected `;` after the statement, found `y`"),
        ("thread { x = ; }", 14, "expected a number, a name or `(`, found `;`"),
        ("thread { x = y; }", 14, "the location `y` inside an expression"),
        ("thread { clwb z; }", 15, "`z` is not a location"),
        ("thread { assert 1; }", 10, "`assert` outside of `recover`"),
        ("thread { x = 1; ", 17, "expected a statement or `}`, found the end of the file"),
        ("thread { r = cas(x, 1); }", 22, "expected `,` and another operand, found `)`"),
        ("thread { y = cas(x, 1, 2); }", 10, "`y` is a location, not a register"),
        ("thread { repeat -1 { } }", 17, "a negative number of repetitions"),
        ("thread { x = 99999999999999999999; }", 14, "`99999999999999999999` is not a number"),
        ("thread { x = 1 @ 2; }", 16, "unexpected character '@'"),
        ("line { x }", 8, "`x` is declared twice"),
        (
            "line { a, b, c, d, e, f, g, h, i }",
            32,
            "9 locations on one line, but a cache line holds 8 of 8 bytes",
        ),
        ("line dram { z }", 6, "expected `{`, `adr` or `eadr` after `line`, found `dram`"),
        ("init { z = 1 }", 8, "`z` is not a location"),
        ("init { x = 1; x = 2 }", 15, "`x` is given an initial value twice"),
        ("forbidden (r0 == 1)", 12, "`r0` is not a location"),
        ("recover { } recover { }", 13, "a second `recover` block"),
        ("thread { sfence = 1; }", 17, "expected `;` after the statement, found `=`"),
        ("line { thread }", 8, "expected the name of a location, found the keyword `thread`"),
    ];
    for (rest, column, message) in cases {
        assert_eq!(error(&format!("{start}{rest}")), (3, column, message.to_owned()), "{rest}");
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_built() {
    let huge = "litmus t line { x } thread { repeat 1000000000 { repeat 1000000000 { x = 1; } } }";
    assert_eq!(error(huge).2, "more than 10000 instructions once loops are unrolled");
    let empty = "litmus t line { x } thread { repeat 1000000000 { repeat 1000000000 { } } }";
    assert!(parse(empty).is_ok());
    let deep =
        format!("litmus t line {{ x }} thread {{ x = {}1{}; }}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(error(&deep).2, "nested more than 128 levels deep");
    let long = format!("litmus t line {{ x }} thread {{ x = 1{}; }}", "+1".repeat(100_000));
    assert_eq!(error(&long).2, "nested more than 128 levels deep");
    assert_eq!(error(&" ".repeat((1 << 20) + 1)).2, "the file is larger than 1 MiB");
}

const WORDS: &[&str] = &[
    "litmus",
    "line",
    "init",
    "thread",
    "recover",
    "forbidden",
    "allowed",
    "if",
    "else",
    "repeat",
    "assert",
    "cas",
    "faa",
    "xchg",
    "movnt",
    "clflush",
    "clflushopt",
    "clwb",
    "sfence",
    "mfence",
    "x",
    "y",
    "r0",
    "{",
    "}",
    "(",
    ")",
    ",",
    ";",
    "=",
    "==",
    "+",
    "-",
    "!",
    "<<",
    "1",
    "0x",
    "99999999999999999999",
    "//",
    "#",
    "\n",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(source in any::<String>()) {
        let _ = parse(&source);
    }

    #[test]
    fn no_mixture_of_words_makes_it_panic(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)) {
        let source = words.join(" ");
        if let Err(error) = parse(&source) {
            let _ = error.position(&source);
        }
        let _ = parse(&format!("litmus t line {{ x }} thread {{ {source} }}"));
    }
}
