//! Instructions with a different result in every run: the processor's clock and its random numbers.
//!
//! Programs wrap them in a few instructions that combine the halves of the clock, or save the flag that says whether a
//! random number was available. Those are followed register by register, so that every output of the statement can be
//! replaced by a reproducible value.

use std::collections::HashMap;

use crate::asm::parts::{Part, Syntax};
use crate::asm::statement::Operand;
use crate::asm::text::{expand, parse_number, split_operands, statements, strip_labels};

/// The value in an output of such a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// The lower half of the clock.
    Low,
    /// Its upper half.
    High,
    /// Its upper half, shifted into place.
    Raised,
    /// The whole clock.
    Clock,
    /// The processor's number.
    Processor,
    /// A random number.
    Random,
    /// Whether one was available.
    Success,
}

/// The flag that `rdrand` sets.
const CARRY: &str = "@ccc";

/// The values in the outputs of a statement that reads the processor's clock or a random number. `Err` if it also does
/// something that is not followed.
pub fn nondeterminism(
    template: &str,
    intel: bool,
    operands: &[Operand],
) -> Option<Result<Vec<Given>, String>> {
    let instructions = statements(&expand(template, intel).ok()?);
    let reads = |statement: &String| {
        let word = strip_labels(statement).split_whitespace().next().unwrap_or("");
        ["rdtsc", "rdrand", "rdseed"].iter().any(|name| word.starts_with(name))
    };
    instructions.iter().any(reads).then(|| {
        let mut followed =
            Followed { syntax: Syntax { intel, operands, sizes: &[] }, places: HashMap::new() };
        for instruction in &instructions {
            followed.instruction(strip_labels(instruction))?;
        }
        followed.outputs(operands)
    })
}

struct Followed<'a> {
    syntax: Syntax<'a>,
    /// Values of registers and operands that derive from those instructions.
    places: HashMap<String, Given>,
}

impl Followed<'_> {
    fn instruction(&mut self, text: &str) -> Result<(), String> {
        let word = text.split_whitespace().next().unwrap_or("");
        let places = self.parts(text[word.len()..].trim())?;
        match (word, &places[..]) {
            ("" | "nop" | "lfence" | "mfence" | "sfence", []) => {}
            ("rdtsc", []) => self.clock(),
            ("rdtscp", []) => {
                self.clock();
                self.places.insert("rcx".into(), Given::Processor);
            }
            ("cpuid", []) => self.places.clear(),
            (_, [to]) if word.starts_with("rdrand") || word.starts_with("rdseed") => {
                self.places.insert(to.clone(), Given::Random);
                self.places.insert(CARRY.into(), Given::Success);
            }
            ("setc" | "setb" | "setnae", [to]) => self.copy(CARRY, to),
            (_, [from, to]) if word.starts_with("mov") => self.copy(from, to),
            ("xor" | "xorl" | "xorq", [from, to]) if from == to => drop(self.places.remove(to)),
            ("shl" | "shlq" | "sal" | "salq", [by, to]) if by == "32" => {
                self.change(to, |held| (held == Given::High).then_some(Given::Raised))?;
            }
            ("or" | "orq" | "add" | "addq", [from, to]) => {
                let other = self.places.get(from).copied();
                self.change(to, |held| match (held, other?) {
                    (Given::Low, Given::Raised) | (Given::Raised, Given::Low) => Some(Given::Clock),
                    _ => None,
                })?;
            }
            _ => return Err(format!("`{text}`")),
        }
        Ok(())
    }

    fn clock(&mut self) {
        self.places.insert("rax".into(), Given::Low);
        self.places.insert("rdx".into(), Given::High);
    }

    fn copy(&mut self, from: &str, to: &str) {
        match self.places.get(from).copied() {
            Some(held) => drop(self.places.insert(to.into(), held)),
            None => drop(self.places.remove(to)),
        }
    }

    fn change(&mut self, place: &str, how: impl FnOnce(Given) -> Option<Given>) -> Result<(), String> {
        let held = self.places.get(place).copied().and_then(how).ok_or("arithmetic")?;
        self.places.insert(place.into(), held);
        Ok(())
    }

    /// The operands of an instruction, sources first: registers, aliases bound to registers, outputs, or numbers.
    fn parts(&self, text: &str) -> Result<Vec<String>, String> {
        let read = |text: String| {
            let text = text.trim();
            Ok(match self.syntax.part(text)? {
                Part::Register(name, _) => name,
                Part::Value(operand, _) => self.name(operand),
                Part::Immediate => {
                    let number = parse_number(text.trim_start_matches('$')).ok_or("a number")?;
                    number.to_string()
                }
                Part::Memory(..) | Part::Elsewhere => return Err("memory".to_owned()),
            })
        };
        let mut parts: Vec<String> =
            split_operands(text).into_iter().map(read).collect::<Result<_, String>>()?;
        if self.syntax.intel {
            parts.reverse();
        }
        Ok(parts)
    }

    fn name(&self, operand: usize) -> String {
        match self.syntax.operands.get(operand).and_then(|operand| operand.register.clone()) {
            Some(register) => register,
            None => format!("operand {operand}"),
        }
    }

    fn outputs(&self, operands: &[Operand]) -> Result<Vec<Given>, String> {
        let outputs = operands.iter().enumerate().filter(|(_, operand)| operand.output);
        outputs
            .map(|(number, _)| {
                let held = self.places.get(&self.name(number)).copied();
                held.filter(|held| *held != Given::Raised).ok_or_else(|| format!("its output {number}"))
            })
            .collect()
    }
}
