//! Reads the instructions of a statement, one by one.

use crashproof_protocol::abi::asm::{LOCKED, NONTEMPORAL, READ, WRITE};

use crate::asm::parts::{Part, Syntax};
use crate::asm::statement::{Access, Address, Effect, Operand, Summary};
use crate::asm::text::{expand, readable, split_operands, statements, strip_labels};
use crate::meaning::{Compute, Fence, Flush, Instruction, Prefixes, Use, access_bytes, instruction};

/// Reads a statement. `sizes` holds the bytes of each operand's value, where known.
///
/// # Errors
///
/// Says what is not understood.
pub fn read(
    template: &str,
    intel: bool,
    operands: &[Operand],
    sizes: &[Option<u32>],
) -> Result<Summary, String> {
    let mut reader = Reader::new(Syntax { intel, operands, sizes });
    for statement in statements(&expand(template, intel)?) {
        reader.statement(&statement)?;
    }
    reader.finish()
}

/// Whether assembly at file scope contains instructions, not only symbols and data.
pub fn has_instructions(text: &str) -> bool {
    statements(text).iter().any(|statement| {
        let word = strip_labels(statement).split_whitespace().next().unwrap_or("");
        !word.is_empty() && !word.starts_with('.') && !statement.contains('=')
    })
}

struct Reader<'a> {
    syntax: Syntax<'a>,
    items: Vec<Item>,
    lock: bool,
    prefixes: Prefixes,
    /// Nesting depth of `.pushsection`, whose content is data, not code.
    in_data: u32,
    jumps: bool,
    /// Some instruction has an effect that is neither listed nor an access.
    computes: bool,
    /// Registers and operands written so far.
    written: Vec<Part>,
}

enum Item {
    Effect(Effect),
    Access(Access),
}

impl<'a> Reader<'a> {
    fn new(syntax: Syntax<'a>) -> Self {
        Reader {
            syntax,
            items: Vec::new(),
            lock: false,
            prefixes: Prefixes::default(),
            in_data: 0,
            jumps: false,
            computes: false,
            written: Vec::new(),
        }
    }

    fn statement(&mut self, statement: &str) -> Result<(), String> {
        let mut rest = strip_labels(statement);
        loop {
            let word = rest.split_whitespace().next().unwrap_or("");
            let after = rest[word.len()..].trim_start();
            match word {
                "" => return Ok(()),
                "lock" => self.lock = true,
                "rep" | "repe" | "repz" | "repne" | "repnz" => self.prefixes.repeat = true,
                "data16" => self.prefixes.operand_size = true,
                "bnd" | "notrack" | "ds" | "cs" | "rex" | "rex.w" | "rex64" => {}
                _ if word.starts_with('.') => return self.directive(word, after, statement),
                _ => {
                    if self.in_data > 0 {
                        return Ok(());
                    }
                    let result = self.instruction(word, after, statement);
                    (self.lock, self.prefixes) = (false, Prefixes::default());
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
                "0x66" => self.prefixes.operand_size = true,
                "0xf0" => self.lock = true,
                "0xf2" | "0xf3" => self.prefixes.repeat = true,
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
            .map(|text| self.syntax.part(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| format!("{why} in `{}`", readable(statement)))?;
        let meaning = instruction(mnemonic, self.prefixes, parts.len());
        match meaning {
            Instruction::Flush(flush) => return self.flush_item(flush, &parts, statement),
            Instruction::Fence(Fence::Store) => return self.effect(Effect::Sfence),
            Instruction::Fence(Fence::Full) => return self.effect(Effect::Mfence),
            Instruction::Pause => return self.effect(Effect::Pause),
            Instruction::Nothing => return Ok(()),
            // It never accesses PM, whatever its operand.
            Instruction::Address if mnemonic == "nop" => return Ok(()),
            _ => {}
        }
        self.computes = true;
        match meaning {
            Instruction::Jump => {
                self.jumps = true;
                return Ok(());
            }
            Instruction::Compute(compute) => self.accesses(mnemonic, compute, &parts, statement)?,
            Instruction::Address => {}
            _ => return Err(format!("instruction `{}`", readable(statement))),
        }
        self.note_written(&parts);
        Ok(())
    }

    fn flush_item(&mut self, flush: Flush, parts: &[Part], statement: &str) -> Result<(), String> {
        match parts {
            [Part::Memory(address, _)] => {
                self.check_not_written(address, statement)?;
                self.effect(Effect::Flush(flush, address.clone()))
            }
            // Apart from Rust's `clwb [{0}]`, a register operand written without parentheses is a mistake that
            // assemblers reject, so it does not get here.
            [Part::Elsewhere] => Ok(()),
            _ => Err(format!("operand of `{}`", readable(statement))),
        }
    }

    fn effect(&mut self, effect: Effect) -> Result<(), String> {
        self.items.push(Item::Effect(effect));
        Ok(())
    }

    fn accesses(
        &mut self,
        mnemonic: &str,
        compute: Compute,
        parts: &[Part],
        statement: &str,
    ) -> Result<(), String> {
        let touches_memory = parts.iter().any(|p| matches!(p, Part::Memory(..) | Part::Elsewhere));
        let locked = self.lock || (compute.locked && touches_memory);
        let destination = if self.syntax.intel { 0 } else { parts.len().saturating_sub(1) };
        let register = parts.iter().find_map(|part| match part {
            Part::Register(_, bytes) | Part::Value(_, bytes) => *bytes,
            _ => None,
        });
        for (position, part) in parts.iter().enumerate() {
            let Part::Memory(address, written_size) = part else { continue };
            self.check_not_written(address, statement)?;
            let is_destination = position == destination || compute.exchanges;
            let mut flags = match (is_destination, compute.destination) {
                (false, _) | (true, Use::Read) => READ,
                (true, Use::Write) => WRITE,
                (true, Use::ReadWrite) => READ | WRITE,
            };
            if locked {
                flags |= LOCKED;
            }
            if compute.nontemporal && flags & WRITE != 0 {
                flags |= NONTEMPORAL;
            }
            let by_name = || access_bytes(mnemonic, register, parts.len(), self.syntax.intel);
            let known = written_size.or_else(by_name);
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

    /// The destination, and for exchanges all operands, change their values.
    fn note_written(&mut self, parts: &[Part]) {
        for part in parts {
            if matches!(part, Part::Register(..) | Part::Value(..)) {
                let is_destination =
                    if self.syntax.intel { parts.first() } else { parts.last() } == Some(part);
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
                Part::Value(number, _) => same_place(self.syntax.operands, *number, operand),
                Part::Register(name, _) => self.syntax.operands[operand].register.as_ref() == Some(name),
                _ => false,
            })
        });
        if changed || self.jumps {
            return Err(format!("an address computed on the way to `{}`", readable(statement)));
        }
        Ok(())
    }

    fn finish(self) -> Result<Summary, String> {
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
