//! Waiting for a run to end, and what is done about one that itself waits.
//!
//! Work is what bounds a run. One that waits for input does none: a server, or something that waits for what never comes.
//! It is known by the calls that its threads are in, and by the processor time it does not use.

#![allow(unsafe_code, reason = "ends processes")]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::subject::ending::{Ending, Limit};
use crate::subject::interrupt::Interrupt;

/// What is done about a run that waits for input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnIdle<'a> {
    /// It may take all the time it wants: somebody debugs it.
    Nothing,
    /// It is ended after a while, and what it would have done is not known.
    GiveUp,
    /// It is a server: this command is its client, and the run ends when that does.
    Client(&'a [String]),
    /// It is a server that has recovered: this command, if it is not empty, asks it whether it has, and the run ends.
    Recovered(&'a [String]),
}

/// A run that is waited for.
pub(crate) struct Waiting<'a> {
    /// Its number. Asked for only if it takes a while: in a sandbox it must be looked for.
    pub(crate) child: &'a dyn Fn() -> i32,
    pub(crate) command: &'a mut UnixStream,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) on_idle: OnIdle<'a>,
    /// Bytes of memory that it may take.
    pub(crate) most_memory: u64,
    /// Bytes of address space that it may have; any if not given.
    pub(crate) most_addresses: Option<u64>,
}

/// How a run ended.
pub(crate) enum Waited {
    /// By itself, with this status.
    Ended(i32),
    /// It was ended, and this counts.
    As(Ending),
    /// Somebody ended the check.
    Interrupted,
}

/// How long a run that has not used the processor is given.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often to look at one that may become idle, and for how long it must have waited to count as idle.
const LOOK_CLOSELY: Duration = Duration::from_millis(5);
const LOOKS: u32 = 4;
/// How often to look at others.
const LOOK: Duration = Duration::from_millis(100);

impl Waiting<'_> {
    /// Waits until it ends, or ends it.
    pub(crate) fn wait(self) -> std::io::Result<Waited> {
        let serves = matches!(self.on_idle, OnIdle::Client(_) | OnIdle::Recovered(_));
        let mut client: Option<Child> = None;
        let mut instead: Option<Ending> = None;
        let mut interrupted = false;
        let mut known = 0;
        let (mut used, mut unused, mut waited) = (String::new(), Duration::ZERO, 0);
        let status = loop {
            let look = if serves { LOOK_CLOSELY } else { LOOK };
            self.command.set_read_timeout(Some(look))?;
            let mut answer = [0; 4];
            match self.command.read_exact(&mut answer) {
                Ok(()) => break i32::from_le_bytes(answer),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // Looked for again if it had not come into being.
            if known <= 0 {
                known = (self.child)();
            }
            let child = known;
            let now = processor_time(child);
            unused = if now == used { unused + look } else { Duration::ZERO };
            used = now;
            if self.interrupt.is_set() {
                interrupted = true;
                end(child);
            }
            if resident(child) > self.most_memory {
                instead = instead.or(Some(Ending::Limit(Limit::Memory)));
                end(child);
            }
            if self.most_addresses.is_some_and(|most| addresses(child) > most) {
                instead = instead.or(Some(Ending::Limit(Limit::AddressSpace)));
                end(child);
            }
            if unused >= PATIENCE && !matches!(self.on_idle, OnIdle::Nothing) {
                instead = instead.or(Some(Ending::Limit(Limit::Idle)));
                end(child);
            }
            if !serves || instead.is_some() {
                continue;
            }
            if let Some(running) = &mut client {
                if let Some(status) = running.try_wait()? {
                    instead = Some(Ending::Exit(status.code().unwrap_or(1)));
                    end(child);
                }
                continue;
            }
            waited = if waits_for_input(child) { waited + 1 } else { 0 };
            if waited >= LOOKS {
                match self.on_idle {
                    OnIdle::Client([program, arguments @ ..])
                    | OnIdle::Recovered([program, arguments @ ..]) => {
                        client = Some(start(program, arguments)?);
                    }
                    _ => {
                        instead = Some(Ending::Exit(0));
                        end(child);
                    }
                }
            }
        };
        self.command.set_read_timeout(None)?;
        if let Some(mut client) = client {
            let _ = client.kill();
            let _ = client.wait();
        }
        Ok(match instead {
            _ if interrupted => Waited::Interrupted,
            Some(ending) => Waited::As(ending),
            None => Waited::Ended(status),
        })
    }
}

fn end(child: i32) {
    // 0 is everyone in this process's group.
    if child > 0 {
        // Safety: the child is not waited for before its parent answers, so its number is its own.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

fn start(program: &str, arguments: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

/// How much processor time a process and its threads have taken, and what the children it waited for took:
/// something that changes when they run. The fields of `stat` after the name, which may hold anything.
fn processor_time(process: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(4).collect::<Vec<_>>().join(" ")
}

/// Bytes of memory that are a process's own.
fn resident(process: i32) -> u64 {
    status(process, "RssAnon:")
}

/// Bytes of address space that a process has.
pub(crate) fn addresses(process: i32) -> u64 {
    status(process, "VmSize:")
}

/// What the kernel says of a process, in bytes.
fn status(process: i32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Are all threads of a process in calls that wait, one of them for input or a connection?
fn waits_for_input(process: i32) -> bool {
    const INPUT: [i64; 13] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_read,
        libc::SYS_rt_sigtimedwait,
    ];
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return false };
    let mut any = false;
    for thread in threads.flatten() {
        let call = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        let Some(number) = call.split(' ').next().and_then(|number| number.parse::<i64>().ok()) else {
            return false;
        };
        if INPUT.contains(&number) {
            any = true;
        } else if number != libc::SYS_futex {
            return false;
        }
    }
    any
}
