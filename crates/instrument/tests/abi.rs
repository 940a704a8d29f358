//! The C header and the Rust crate describe the same interface.

use crashproof_protocol::abi;
use crashproof_protocol::abi::Type;

fn header() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/abi/crashproof_abi.h");
    let text = std::fs::read_to_string(path).expect("the header is in the repository");
    // Comments hold semicolons and names.
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((code, after)) = rest.split_once("/*") {
        plain.push_str(code);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    plain + rest
}

fn c_type(text: &str) -> Type {
    match text.trim() {
        text if text.contains('*') => Type::Pointer,
        text if text.starts_with("uint32_t") => Type::U32,
        text if text.starts_with("uint64_t") => Type::U64,
        "void" => Type::Void,
        other => panic!("`{other}` is no type of the interface"),
    }
}

/// Name, result, parameters with their names.
type Prototype = (String, Type, Vec<(String, Type)>);

fn prototypes(header: &str) -> Vec<Prototype> {
    header
        .split(';')
        .filter_map(|declaration| {
            let at = declaration.find("__crashproof_")?;
            let line = declaration[..at].rsplit(['\n', '}']).next().unwrap_or("");
            let (name, rest) = declaration[at..].split_once('(')?;
            let parameters = rest.split(')').next()?.split(',').filter(|parameter| *parameter != "void").map(
                |parameter| {
                    let name = parameter.trim().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
                    (name.unwrap_or("").to_owned(), c_type(parameter))
                },
            );
            Some((name.to_owned(), c_type(line), parameters.collect()))
        })
        .collect()
}

#[test]
fn functions_agree() {
    let in_header = prototypes(&header());
    let in_crate: Vec<Prototype> = abi::FUNCTIONS
        .iter()
        .map(|f| {
            let parameters = f.params.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect::<Vec<_>>();
            (f.name.to_owned(), f.result, parameters)
        })
        .collect();
    for (c, rust) in in_header.iter().zip(&in_crate) {
        assert_eq!(c, rust);
    }
    assert_eq!(in_header.len(), in_crate.len());
}

#[test]
fn numbers_agree() {
    let header = header();
    let value = |name: &str| -> u64 {
        let line = header.lines().find(|line| line.split_whitespace().any(|word| word == name));
        let word = line.unwrap_or_else(|| panic!("{name} is not in the header")).split_whitespace().last();
        let digits = word.unwrap_or("").trim_end_matches(['u', ',']);
        match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).expect("a number"),
            None => digits.parse().expect("a number"),
        }
    };
    let expected = [
        ("CRASHPROOF_ABI_VERSION", u64::from(abi::VERSION)),
        ("CRASHPROOF_PM_SHIFT", abi::PM_SHIFT.into()),
        ("CRASHPROOF_PM_WINDOW", abi::PM_WINDOW),
        ("CRASHPROOF_SITE_MAGIC", abi::SITE_MAGIC.into()),
        ("CRASHPROOF_FLAG_ATOMIC", abi::FLAG_ATOMIC.into()),
        ("CRASHPROOF_FLAG_VOLATILE", abi::FLAG_VOLATILE.into()),
        ("CRASHPROOF_LOAD", abi::kind::LOAD.into()),
        ("CRASHPROOF_STORE", abi::kind::STORE.into()),
        ("CRASHPROOF_NT_STORE", abi::kind::NT_STORE.into()),
        ("CRASHPROOF_RMW", abi::kind::RMW.into()),
        ("CRASHPROOF_CAS", abi::kind::CAS.into()),
        ("CRASHPROOF_MEMCPY", abi::kind::MEMCPY.into()),
        ("CRASHPROOF_MEMMOVE", abi::kind::MEMMOVE.into()),
        ("CRASHPROOF_MEMSET", abi::kind::MEMSET.into()),
        ("CRASHPROOF_GATHER", abi::kind::GATHER.into()),
        ("CRASHPROOF_SCATTER", abi::kind::SCATTER.into()),
        ("CRASHPROOF_CLFLUSH", abi::kind::CLFLUSH.into()),
        ("CRASHPROOF_CLFLUSHOPT", abi::kind::CLFLUSHOPT.into()),
        ("CRASHPROOF_CLWB", abi::kind::CLWB.into()),
        ("CRASHPROOF_SFENCE", abi::kind::SFENCE.into()),
        ("CRASHPROOF_MFENCE", abi::kind::MFENCE.into()),
        ("CRASHPROOF_ASM", abi::kind::ASM.into()),
        ("CRASHPROOF_UNKNOWN", abi::kind::UNKNOWN.into()),
        ("CRASHPROOF_PAUSE", abi::kind::PAUSE.into()),
        ("CRASHPROOF_XCHG", abi::rmw::XCHG.into()),
        ("CRASHPROOF_ADD", abi::rmw::ADD.into()),
        ("CRASHPROOF_SUB", abi::rmw::SUB.into()),
        ("CRASHPROOF_AND", abi::rmw::AND.into()),
        ("CRASHPROOF_OR", abi::rmw::OR.into()),
        ("CRASHPROOF_XOR", abi::rmw::XOR.into()),
        ("CRASHPROOF_SET", abi::rmw::SET.into()),
        ("CRASHPROOF_ASM_READ", abi::asm::READ.into()),
        ("CRASHPROOF_ASM_WRITE", abi::asm::WRITE.into()),
        ("CRASHPROOF_ASM_LOCKED", abi::asm::LOCKED.into()),
        ("CRASHPROOF_ASM_NONTEMPORAL", abi::asm::NONTEMPORAL.into()),
    ];
    for (name, number) in expected {
        assert_eq!(value(name), number, "{name}");
    }
}

#[test]
fn layouts_agree() {
    use std::mem::{offset_of, size_of};
    assert_eq!(size_of::<abi::Site>(), 48);
    assert_eq!((offset_of!(abi::Site, file), offset_of!(abi::Site, text)), (16, 40));
    assert_eq!((size_of::<abi::Frame>(), offset_of!(abi::Frame, inlined_at)), (32, 24));
    assert_eq!((size_of::<abi::PmGlobal>(), offset_of!(abi::PmGlobal, fixup_count)), (56, 48));
    assert_eq!(size_of::<abi::PmFixup>(), 24);
}
