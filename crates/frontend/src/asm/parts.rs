//! The operands of an instruction, in both dialects.

use crate::asm::registers::{full_register, intel_size, register_bytes};
use crate::asm::statement::{Address, Operand};
use crate::asm::text::{displacement, find_operand, parse_number};

/// One operand in the text of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A register, with its full-width name, and its bytes.
    Register(String, Option<u32>),
    /// An operand of the statement in a register (or an immediate), and its size if known.
    Value(usize, Option<u32>),
    /// Memory that may be PM, with its size if specified.
    Memory(Address, Option<u32>),
    /// Memory that is not PM: stack, symbol, segment.
    Elsewhere,
    Immediate,
}

/// How to interpret the text of a statement.
#[derive(Clone, Copy)]
pub(crate) struct Syntax<'a> {
    /// Intel rather than AT&T syntax.
    pub(crate) intel: bool,
    /// Operands of the statement.
    pub(crate) operands: &'a [Operand],
    /// Bytes of each operand's value, where known.
    pub(crate) sizes: &'a [Option<u32>],
}

impl Syntax<'_> {
    /// Reads one operand of an instruction.
    pub(crate) fn part(&self, text: &str) -> Result<Part, String> {
        if self.intel { self.intel_part(text) } else { self.att_part(text) }
    }

    fn operand_part(&self, text: &str) -> Result<Option<Part>, String> {
        let Some((before, number, modifier, after)) = find_operand(text) else { return Ok(None) };
        let Some(operand) = self.operands.get(number) else {
            return Err(format!("operand {number} that does not exist"));
        };
        let displacement = displacement(before).zip(displacement(after)).map(|(a, b)| a + b);
        if operand.memory {
            let displacement = displacement.ok_or("an address")?;
            return Ok(Some(Part::Memory(Address::Memory { operand: number, displacement }, None)));
        }
        if modifier == Some('a') {
            let displacement = displacement.ok_or("an address")?;
            let address = Address::Computed { base: Some(number), index: None, scale: 1, displacement };
            return Ok(Some(Part::Memory(address, None)));
        }
        Ok(Some(Part::Value(number, self.value_bytes(number, modifier))))
    }

    fn value_bytes(&self, operand: usize, modifier: Option<char>) -> Option<u32> {
        match modifier {
            Some('b' | 'h') => Some(1),
            Some('w') => Some(2),
            Some('k' | 'e') => Some(4),
            Some('q' | 'r') => Some(8),
            Some('x') => Some(16),
            Some('t' | 'y') => Some(32),
            Some('g' | 'z') => Some(64),
            _ => self.sizes.get(operand).copied().flatten(),
        }
    }

    fn att_part(&self, text: &str) -> Result<Part, String> {
        if let Some(open) = text.find('(') {
            return self.att_memory(text, open);
        }
        if let Some(part) = self.operand_part(text)? {
            return Ok(part);
        }
        if let Some(name) = text.strip_prefix('%') {
            if name.contains(':') {
                return Ok(Part::Elsewhere);
            }
            return Ok(Part::Register(full_register(name).to_owned(), register_bytes(name)));
        }
        Ok(if text.starts_with('$') { Part::Immediate } else { Part::Elsewhere })
    }

    fn att_memory(&self, text: &str, open: usize) -> Result<Part, String> {
        let before = text[..open].trim();
        let inside = text[open + 1..].trim_end().strip_suffix(')').ok_or("unbalanced parentheses")?;
        if before.starts_with("%fs") || before.starts_with("%gs") {
            return Ok(Part::Elsewhere);
        }
        let fields: Vec<&str> = inside.split(',').map(str::trim).collect();
        let is = |name: &str| fields[0].trim_start_matches('%') == name;
        if is("rip") || is("rsp") || is("rbp") {
            return Ok(Part::Elsewhere);
        }
        let register = |text: &str| -> Result<Option<usize>, String> {
            if text.is_empty() {
                Ok(None)
            } else {
                self.address_register(text.trim_start_matches('%')).map(Some)
            }
        };
        let base = register(fields[0])?;
        let index = register(fields.get(1).copied().unwrap_or(""))?;
        let scale = fields.get(2).map_or(Ok(1), |s| s.parse()).map_err(|_| "a scale")?;
        let displacement = displacement(before).ok_or("an address")?;
        Ok(Part::Memory(Address::Computed { base, index, scale, displacement }, None))
    }

    fn intel_part(&self, text: &str) -> Result<Part, String> {
        let size = intel_size(text);
        let bare = text.rsplit("ptr ").next().unwrap_or(text).trim();
        if bare.starts_with("fs:") || bare.starts_with("gs:") {
            return Ok(Part::Elsewhere);
        }
        if let Some(open) = bare.find('[') {
            let inside = bare[open + 1..].trim_end().strip_suffix(']').ok_or("unbalanced brackets")?;
            if !bare[..open].trim().is_empty() {
                // `symbol[rip]`
                return Ok(Part::Elsewhere);
            }
            return self.intel_memory(inside, size);
        }
        if let Some(part) = self.operand_part(bare)? {
            return Ok(match part {
                Part::Memory(address, None) => Part::Memory(address, size),
                other => other,
            });
        }
        if register_bytes(bare).is_some() {
            return Ok(Part::Register(full_register(bare).to_owned(), register_bytes(bare)));
        }
        Ok(if parse_number(bare).is_some() { Part::Immediate } else { Part::Elsewhere })
    }

    fn intel_memory(&self, inside: &str, size: Option<u32>) -> Result<Part, String> {
        let (mut base, mut index, mut scale, mut displacement) = (None, None, 1, 0);
        let signed = inside.replace('-', "+-");
        for term in signed.split('+').map(str::trim).filter(|t| !t.is_empty()) {
            if let Some(number) = parse_number(term) {
                displacement += number;
            } else if let Some((left, right)) = term.split_once('*') {
                let (register, factor) =
                    if parse_number(left.trim()).is_some() { (right, left) } else { (left, right) };
                index = Some(self.address_register(register.trim())?);
                scale = parse_number(factor.trim()).and_then(|n| u8::try_from(n).ok()).ok_or("a scale")?;
            } else if matches!(term, "rip" | "rsp" | "rbp") {
                return Ok(Part::Elsewhere);
            } else {
                let operand = self.address_register(term)?;
                if base.is_none() { base = Some(operand) } else { index = Some(operand) }
            }
        }
        if base.is_none() && index.is_none() {
            return Ok(Part::Elsewhere);
        }
        Ok(Part::Memory(Address::Computed { base, index, scale, displacement }, size))
    }

    /// The operand that holds an address, identified by number or by the register it is bound to.
    fn address_register(&self, text: &str) -> Result<usize, String> {
        if let Some(("", number, _, "")) = find_operand(text) {
            let operand = self.operands.get(number).ok_or("an operand that does not exist")?;
            if operand.memory {
                return Err("a memory operand used as a register".into());
            }
            return Ok(number);
        }
        let name = full_register(text);
        // The input takes precedence over an output bound to the same register: it provides the address.
        let bound = |o: &Operand| o.register.as_deref() == Some(name);
        let input = self.operands.iter().position(|o| bound(o) && !o.output);
        input
            .or_else(|| self.operands.iter().position(bound))
            .ok_or_else(|| format!("an address in `{text}`, which is no operand,"))
    }
}
