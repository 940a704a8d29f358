//! Where a process crashed: the runtime's machine-readable message, in readable form.

use crashproof_findings::Place;
use crashproof_protocol::fault::{DOUBLE_FREE, INVALID_FREE, LINE};

use crate::subject::sites::Sites;

/// The runtime's message about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    signal: i32,
    address: u64,
    site: u32,
}

/// What separates the place from the rest.
const SEPARATOR: &str = ": ";

fn parse(line: &str) -> Option<Fault> {
    let mut words = line.strip_prefix(LINE)?.split(' ');
    Some(Fault {
        signal: words.next()?.parse().ok()?,
        address: u64::from_str_radix(words.next()?, 16).ok()?,
        site: words.next()?.parse().ok()?,
    })
}

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "segmentation fault",
        libc::SIGBUS => "bus error",
        libc::SIGFPE => "arithmetic error",
        DOUBLE_FREE => "a block is freed twice",
        INVALID_FREE => "the freed pointer is not a heap block",
        _ => "illegal instruction",
    }
}

/// The output with the runtime's line replaced by a sentence at its end.
pub(crate) fn readable(output: &str, sites: impl FnOnce() -> Option<Sites>) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let Some((at, fault)) = lines.iter().enumerate().rev().find_map(|(at, line)| Some((at, parse(line)?)))
    else {
        return output.to_owned();
    };
    let sites = sites().unwrap_or_default();
    let place = sites.get(fault.site);
    let mut said: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let what = format!("{} (address {:#x})", name(fault.signal), fault.address);
    said[at] = match place.is_known() {
        true => format!("{}:{}{SEPARATOR}{what}", place.file, place.line),
        false => what,
    };
    said.join("\n")
}

/// Where the process crashed, or the last of its children that did, if its output says so.
pub(crate) fn place(output: &str) -> Option<Place> {
    output.lines().rev().find_map(|line| {
        let (place, what) = line.split_once(SEPARATOR)?;
        let (file, line) = place.rsplit_once(':')?;
        what.contains(" (address 0x").then(|| Some(Place::new(file, line.parse().ok()?, 0)))?
    })
}

/// The address that it crashed at.
pub(crate) fn address(output: &str) -> Option<u64> {
    let (_, address) = output.lines().last()?.rsplit_once(" (address 0x")?;
    u64::from_str_radix(address.strip_suffix(')')?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_with_its_place() {
        let table = "1\t\t12\t3\ta.c\tput\t";
        let output = format!("hello\n{LINE}11 dead0 1");
        let text = readable(&output, || Some(Sites::parse(table)));
        assert_eq!(text, "hello\na.c:12: segmentation fault (address 0xdead0)");
        assert_eq!(place(&text).map(|place| (place.file, place.line)), Some(("a.c".into(), 12)));
        assert_eq!(address(&text), Some(0xdead0));
        let nowhere = readable(&format!("{LINE}8 0 0"), || None);
        assert_eq!(nowhere, "arithmetic error (address 0x0)");
        assert_eq!((place(&nowhere), address(&nowhere)), (None, Some(0)));
        assert_eq!(readable("hello", || None), "hello");
        assert_eq!(place("hello: 1"), None);
        let of_child = format!("{text}\nthe child has failed");
        assert_eq!(place(&of_child).map(|place| place.line), Some(12));
    }
}
