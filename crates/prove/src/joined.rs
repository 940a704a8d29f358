//! A counterexample for readers: the byte accesses of one statement are joined.
//!
//! Library functions such as `strcpy` are unrolled into single-byte accesses, which would bury everything else. So
//! adjacent bytes written or read by one statement become one step with one value. Nothing is left out, and the orders
//! between the remaining steps are those of the parts.

use crate::program::Site;
use crate::story::{Counterexample, Edge, EdgeKind, Effect, RecoveryRead, Remains, Step};

/// Values up to this many bytes are shown as numbers if they are not text.
const NUMBER: usize = 8;

/// The counterexample with accesses of single bytes joined.
pub(crate) fn joined(story: &Counterexample) -> Counterexample {
    let (steps, step_of) = join_steps(&story.steps);
    let (memory, memory_of) = join_memory(&story.memory, &step_of);
    let recovery = join_reads(&story.recovery);
    let mut edges: Vec<Edge> = Vec::new();
    for edge in &story.edges {
        let into_memory = matches!(edge.kind, EdgeKind::FlushBefore | EdgeKind::Survives);
        let to = if into_memory { memory_of[edge.to] } else { step_of[edge.to] };
        let edge = Edge { from: step_of[edge.from], to, kind: edge.kind };
        if (into_memory || edge.from != edge.to) && !edges.contains(&edge) {
            edges.push(edge);
        }
    }
    Counterexample { steps, memory, recovery, edges, ..story.clone() }
}

/// Adjacent bytes, in address order.
#[derive(Default)]
struct Bytes {
    place: String,
    address: u64,
    values: Vec<u8>,
}

impl Bytes {
    fn new(place: &str, address: u64, value: u64) -> Bytes {
        Bytes { place: place.to_owned(), address, values: vec![value as u8] }
    }

    /// Is this the next byte?
    fn is_followed_by(&self, address: u64) -> bool {
        self.address + self.values.len() as u64 == address
    }

    /// Their common name: `pool+24..44`, `r.name[0..20]`.
    fn name(&self) -> String {
        let (place, count) = (self.place.as_str(), self.values.len());
        if count == 1 {
            return place.to_owned();
        }
        if let Some((object, offset)) = place.rsplit_once('+')
            && let Ok(offset) = offset.parse::<usize>()
        {
            return format!("{object}+{offset}..{}", offset + count);
        }
        match place.strip_suffix(']').and_then(|it| it.rsplit_once('[')) {
            Some((array, first)) if first.parse::<usize>().is_ok() => {
                let first: usize = first.parse().unwrap_or_default();
                format!("{array}[{first}..{}]", first + count)
            }
            _ => format!("{place}[0..{count}]"),
        }
    }

    /// Their content: text if it is printable, a number if it is short.
    fn value(&self) -> String {
        let end = self.values.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let text = &self.values[..end];
        if end > 0 && text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return format!("{:?}", String::from_utf8_lossy(text));
        }
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
        match self.values.len() {
            0..=NUMBER => format!("{:#x}", number(&self.values)),
            _ if end == 0 => "0".to_owned(),
            many => format!("{many} bytes"),
        }
    }
}

/// Joins runs of byte stores by one statement; also returns the new index of each step.
fn join_steps(steps: &[Step]) -> (Vec<Step>, Vec<usize>) {
    let mut all: Vec<Step> = Vec::new();
    let mut step_of = Vec::with_capacity(steps.len());
    let mut run: Option<Bytes> = None;
    for step in steps {
        let stored = match step.effect {
            Effect::Wrote(value) if step.bytes == 1 => Some(value),
            _ => None,
        };
        let joins = |last: &Step| {
            last.thread == step.thread
                && last.site == step.site
                && last.persisted == step.persisted
                && last.forwarded == step.forwarded
        };
        match (stored, run.as_mut(), all.last_mut()) {
            (Some(value), Some(bytes), Some(last)) if bytes.is_followed_by(step.address) && joins(last) => {
                bytes.values.push(value as u8);
                last.place = bytes.name();
                last.wrote = bytes.value();
            }
            _ => {
                run = stored.map(|value| Bytes::new(&step.place, step.address, value));
                all.push(step.clone());
            }
        }
        step_of.push(all.len() - 1);
    }
    (all, step_of)
}

/// The same for memory after the crash: bytes that one step wrote, or that the same steps lost.
fn join_memory(memory: &[Remains], step_of: &[usize]) -> (Vec<Remains>, Vec<usize>) {
    let mut order: Vec<usize> = (0..memory.len()).collect();
    order.sort_by_key(|&at| memory[at].address);
    let mut all: Vec<Remains> = Vec::new();
    let mut memory_of = vec![0; memory.len()];
    let mut run: Option<Bytes> = None;
    for at in order {
        let old = &memory[at];
        let mut lost: Vec<usize> = old.lost.iter().map(|&step| step_of[step]).collect();
        lost.dedup();
        let from = old.from.map(|step| step_of[step]);
        match (run.as_mut(), all.last_mut()) {
            (Some(bytes), Some(last))
                if old.bytes == 1
                    && bytes.is_followed_by(old.address)
                    && last.from == from
                    && last.lost == lost =>
            {
                bytes.values.push(old.value as u8);
                last.place = bytes.name();
                last.shown = bytes.value();
            }
            _ => {
                run = (old.bytes == 1).then(|| Bytes::new(&old.place, old.address, old.value));
                all.push(Remains { from, lost, ..old.clone() });
            }
        }
        memory_of[at] = all.len() - 1;
    }
    (all, memory_of)
}

/// The same for recovery's reads. A statement may read two strings in alternation, byte by byte.
fn join_reads(reads: &[RecoveryRead]) -> Vec<RecoveryRead> {
    let mut all: Vec<RecoveryRead> = Vec::new();
    let mut runs: Vec<(usize, Bytes)> = Vec::new();
    let mut site: Option<&Site> = None;
    for read in reads {
        if site.is_none_or(|site| *site != read.site) {
            runs.clear();
        }
        site = Some(&read.site);
        let address = read.address.filter(|_| read.bytes == 1);
        let run =
            address.and_then(|address| runs.iter_mut().find(|(_, bytes)| bytes.is_followed_by(address)));
        if let Some((at, bytes)) = run {
            bytes.values.push(read.value as u8);
            all[*at].place = bytes.name();
            all[*at].shown = bytes.value();
            continue;
        }
        if let Some(address) = address {
            runs.push((all.len(), Bytes::new(&read.place, address, read.value)));
        }
        all.push(read.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(place: &str, values: &[u8]) -> Bytes {
        Bytes { place: place.to_owned(), address: 0, values: values.to_vec() }
    }

    #[test]
    fn bytes_side_by_side_have_one_name_and_one_value() {
        let named = |place, count| bytes(place, &vec![1; count]).name();
        assert_eq!(named("pool+24", 20), "pool+24..44");
        assert_eq!(named("r.text[3]", 2), "r.text[3..5]");
        assert_eq!(named("r.text", 4), "r.text[0..4]");
        assert_eq!(named("pool+24", 1), "pool+24");
        assert_eq!(bytes("p", b"value-1\0").value(), "\"value-1\"");
        assert_eq!(bytes("p", &[0, 1]).value(), "0x100");
        assert_eq!(bytes("p", &[0; 12]).value(), "0");
        assert_eq!(bytes("p", &[7; 12]).value(), "12 bytes");
    }

    #[test]
    fn strings_that_are_compared_byte_by_byte_are_two_reads() {
        let read = |address, value| RecoveryRead {
            site: Site::default(),
            place: format!("pool+{address}"),
            address: Some(address),
            bytes: 1,
            value,
            shown: String::new(),
        };
        let reads = [read(8, 65), read(40, 65), read(9, 66), read(41, 67)];
        let joined: Vec<String> =
            join_reads(&reads).into_iter().map(|it| format!("{} = {}", it.place, it.shown)).collect();
        assert_eq!(joined, ["pool+8..10 = \"AB\"", "pool+40..42 = \"AC\""]);
    }
}
