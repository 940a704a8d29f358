//! Reads the instructions of a statement, one by one.

use crashproof_protocol::abi::asm::{LOCKED, NONTEMPORAL, READ, WRITE};

use crate::asm::instructions::{access_bytes, direction, is_opaque};
use crate::asm::parts::Part;
use crate::asm::text::{readable, split_operands, strip_labels};
use crate::asm::{Access, Address, Effect, Flush, Operand, Summary};

#[derive(Default)]
pub(crate) struct Reader<'a> {
    pub(crate) intel: bool,
    pub(crate) operands: &'a [Operand],
    pub(crate) sizes: &'a [Option<u32>],
    items: Vec<Item>,
    lock: bool,
    repeat: bool,
    operand_size_prefix: bool,
    /// Depth of `.pushsection`: what is there is data, not code.
    in_data: u32,
    jumps: bool,
    /// Some instruction does something that is neither an effect nor an access.
    computes: bool,
    /// Registers and operands written so far.
    written: Vec<Part>,
}

enum Item {
    Effect(Effect),
    Access(Access),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(intel: bool, operands: &'a [Operand], sizes: &'a [Option<u32>]) -> Self {
        Reader { intel, operands, sizes, ..Reader::default() }
    }

    pub(crate) fn statement(&mut self, statement: &str) -> Result<(), String> {
        let mut rest = strip_labels(statement);
        loop {
            let word = rest.split_whitespace().next().unwrap_or("");
            let after = rest[word.len()..].trim_start();
            match word {
                "" => return Ok(()),
                "lock" => self.lock = true,
                "rep" | "repe" | "repz" | "repne" | "repnz" => self.repeat = true,
                "data16" => self.operand_size_prefix = true,
                "bnd" | "notrack" | "ds" | "cs" | "rex" | "rex.w" | "rex64" => {}
                _ if word.starts_with('.') => return self.directive(word, after, statement),
                _ => {
                    if self.in_data > 0 {
                        return Ok(());
                    }
                    let result = self.instruction(word, after, statement);
                    (self.lock, self.repeat, self.operand_size_prefix) = (false, false, false);
                    return result;
                }
            }
            rest = after;
        }
    }

    fn directive(&mut self, word: &str, arguments: &str, statement: &str) -> Result<(), String> {
        match word {
            ".pushsection" => self.in_data += 1,
            ".popsection" | ".previous" => self.in_data = self.in_data.saturating_sub(1),
            _ if self.in_data > 0 => {}
            ".section" => self.in_data += 1,
            ".byte" => match arguments.trim() {
                "0x66" => self.operand_size_prefix = true,
                "0xf0" => self.lock = true,
                "0xf2" | "0xf3" => self.repeat = true,
                "0x2e" | "0x3e" => {}
                _ => return Err(format!("raw bytes `{}`", readable(statement))),
            },
            ".word" | ".short" | ".value" | ".long" | ".int" | ".quad" | ".octa" | ".ascii" | ".asciz"
            | ".string" | ".insn" | ".fill" | ".zero" | ".skip" | ".incbin" | ".macro" | ".rept"
            | ".include" => {
                return Err(format!("raw data `{}`", readable(statement)));
            }
            _ => {}
        }
        Ok(())
    }

    fn instruction(&mut self, mnemonic: &str, arguments: &str, statement: &str) -> Result<(), String> {
        let parts = split_operands(arguments)
            .iter()
            .map(|text| if self.intel { self.intel_part(text) } else { self.att_part(text) })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| format!("{why} in `{}`", readable(statement)))?;
        if let Some(flush) = self.flush(mnemonic) {
            return self.flush_item(flush, &parts, statement);
        }
        match mnemonic {
            "sfence" => return self.effect(Effect::Sfence),
            "mfence" => return self.effect(Effect::Mfence),
            "lfence" | "nop" if !self.repeat => return Ok(()),
            "pause" => return self.effect(Effect::Pause),
            "nop" => return self.effect(Effect::Pause),
            _ => {}
        }
        self.computes = true;
        if mnemonic.starts_with('j') || mnemonic.starts_with("loop") {
            self.jumps = true;
            return Ok(());
        }
        if is_opaque(mnemonic, parts.len(), self.repeat) {
            return Err(format!("instruction `{}`", readable(statement)));
        }
        if mnemonic.starts_with("lea") || mnemonic.starts_with("prefetch") || mnemonic.starts_with("nop") {
            self.note_written(&parts);
            return Ok(());
        }
        self.accesses(mnemonic, &parts, statement)?;
        self.note_written(&parts);
        Ok(())
    }

    fn flush(&self, mnemonic: &str) -> Option<Flush> {
        match (mnemonic, self.operand_size_prefix) {
            ("clflush", false) => Some(Flush::Clflush),
            ("clflush", true) | ("clflushopt", _) => Some(Flush::Clflushopt),
            ("xsaveopt", true) | ("clwb", _) => Some(Flush::Clwb),
            _ => None,
        }
    }

    fn flush_item(&mut self, flush: Flush, parts: &[Part], statement: &str) -> Result<(), String> {
        match parts {
            [Part::Memory(address, _)] => {
                self.check_not_written(address, statement)?;
                self.effect(Effect::Flush(flush, address.clone()))
            }
            // Rust's `clwb [{0}]` apart, a register operand is often written without parentheses by
            // mistake; assemblers refuse that, so it does not get here.
            [Part::Elsewhere] => Ok(()),
            _ => Err(format!("operand of `{}`", readable(statement))),
        }
    }

    fn effect(&mut self, effect: Effect) -> Result<(), String> {
        self.items.push(Item::Effect(effect));
        Ok(())
    }

    fn accesses(&mut self, mnemonic: &str, parts: &[Part], statement: &str) -> Result<(), String> {
        let exchange = mnemonic.starts_with("xchg");
        let touches_memory = parts.iter().any(|p| matches!(p, Part::Memory(..) | Part::Elsewhere));
        let locked = self.lock || (exchange && touches_memory);
        let destination = if self.intel { 0 } else { parts.len().saturating_sub(1) };
        for (position, part) in parts.iter().enumerate() {
            let Part::Memory(address, written_size) = part else { continue };
            self.check_not_written(address, statement)?;
            let mut flags = direction(mnemonic, position == destination, parts.len() == 1);
            if exchange || mnemonic.starts_with("xadd") {
                flags = READ | WRITE;
            }
            if locked {
                flags |= LOCKED;
            }
            if mnemonic.contains("movnt") && flags & WRITE != 0 {
                flags |= NONTEMPORAL;
            }
            let known = (*written_size).or_else(|| access_bytes(mnemonic, parts, self.intel));
            let is_operand = matches!(address, Address::Memory { displacement: 0, .. });
            if known.is_none() && !is_operand {
                return Err(format!("how much memory `{}` touches", readable(statement)));
            }
            let bit_string = mnemonic.starts_with("bt") && !parts.contains(&Part::Immediate);
            if bit_string {
                return Err(format!("bit string access `{}`", readable(statement)));
            }
            let access = Access { address: address.clone(), bytes: known, flags };
            self.items.push(Item::Access(access));
        }
        // A locked instruction on the stack is a common way to write a full fence.
        if locked && !parts.iter().any(|p| matches!(p, Part::Memory(..))) {
            self.items.push(Item::Effect(Effect::Mfence));
        }
        Ok(())
    }

    /// The destination, and for exchanges everything, holds something else from now on.
    fn note_written(&mut self, parts: &[Part]) {
        for part in parts {
            if matches!(part, Part::Register(..) | Part::Value(..)) {
                let is_destination = if self.intel { parts.first() } else { parts.last() } == Some(part);
                if is_destination {
                    self.written.push(part.clone());
                }
            }
        }
    }

    fn check_not_written(&self, address: &Address, statement: &str) -> Result<(), String> {
        let Address::Computed { base, index, .. } = address else { return Ok(()) };
        let changed = [*base, *index].into_iter().flatten().any(|operand| {
            self.written.iter().any(|part| match part {
                Part::Value(number, _) => same_place(self.operands, *number, operand),
                Part::Register(name, _) => self.operands[operand].register.as_ref() == Some(name),
                _ => false,
            })
        });
        if changed || self.jumps {
            return Err(format!("an address computed on the way to `{}`", readable(statement)));
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Summary, String> {
        let is_access = |item: &Item| matches!(item, Item::Access(_));
        let first = self.items.iter().position(is_access).unwrap_or(self.items.len());
        let last = self.items.iter().rposition(is_access);
        let mut summary = Summary { only_effects: !self.computes && last.is_none(), ..Summary::default() };
        for (position, item) in self.items.into_iter().enumerate() {
            match item {
                Item::Access(access) => summary.accesses.push(access),
                Item::Effect(effect) if position < first => summary.before.push(effect),
                Item::Effect(effect) if Some(position) > last => summary.after.push(effect),
                Item::Effect(_) => return Err("a flush or fence between two accesses".into()),
            }
        }
        let jumps_over_effects = self.jumps && !(summary.before.is_empty() && summary.after.is_empty());
        if jumps_over_effects {
            return Err("a flush or fence that may be jumped over".into());
        }
        Ok(summary)
    }
}

/// Whether two operands share a register.
fn same_place(operands: &[Operand], a: usize, b: usize) -> bool {
    let home = |n: usize| operands[n].tied.unwrap_or(n);
    home(a) == home(b) || (operands[a].register.is_some() && operands[a].register == operands[b].register)
}
