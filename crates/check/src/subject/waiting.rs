//! Waits for a run to end, and handles runs that wait themselves.
//!
//! A run is bounded by its work. One that waits for input does none: it is a server, or waits for something that never
//! comes. It is recognized by the calls its threads are in, and by not using processor time.

#![allow(unsafe_code, reason = "ends processes")]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::subject::ending::{Ending, Limit};
use crate::subject::interrupt::Interrupt;

/// What to do about a run that waits for input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnIdle<'a> {
    /// Nothing: it is being debugged, and has no time limit.
    Nothing,
    /// End it after a while; what it would have done remains unknown.
    GiveUp,
    /// It is a server: start this command as its client, and end the run when that ends.
    Client(&'a [String]),
    /// It is a server that has recovered: verify that with this command, if not empty, and end the run.
    Recovered(&'a [String]),
}

/// A run being waited for.
pub(crate) struct Waiting<'a> {
    /// Its process id. A function, because in a sandbox finding it takes a while.
    pub(crate) child: &'a dyn Fn() -> i32,
    /// What tells of its end, and is read for [`LOOK`] at a time.
    pub(crate) command: &'a mut UnixStream,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) on_idle: OnIdle<'a>,
    /// By how many bytes the image has grown since a run was recorded.
    pub(crate) image_growth: &'a dyn Fn() -> u64,
    /// Maximum resident memory in bytes, and how far the image may grow.
    pub(crate) most_memory: u64,
    /// Maximum address space in bytes; unlimited if not given.
    pub(crate) most_addresses: Option<u64>,
}

/// How a run ended.
pub(crate) enum Waited {
    /// By itself, with this status.
    Ended(i32),
    /// It was ended, with this result.
    As(Ending),
    /// The check was interrupted.
    Interrupted,
}

/// How long a run may remain without using the processor.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often to check a run that may become idle, and for how long it must have waited to count as idle.
const LOOK_CLOSELY: Duration = Duration::from_millis(5);
const LOOKS: u32 = 4;
/// How often to check others.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

impl Waiting<'_> {
    /// Waits until it ends, or ends it.
    pub(crate) fn wait(self) -> std::io::Result<Waited> {
        let serves = matches!(self.on_idle, OnIdle::Client(_) | OnIdle::Recovered(_));
        let mut client: Option<Child> = None;
        let mut instead: Option<Ending> = None;
        let mut interrupted = false;
        let mut known = 0;
        let (mut used, mut unused, mut waited) = (String::new(), Duration::ZERO, 0);
        let look = if serves { LOOK_CLOSELY } else { LOOK };
        if serves {
            self.command.set_read_timeout(Some(look))?;
        }
        let status = loop {
            let mut answer = [0; 4];
            match self.command.read_exact(&mut answer) {
                Ok(()) => break i32::from_le_bytes(answer),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // Looked up again if it did not exist yet.
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
            if resident(child).max((self.image_growth)()) > self.most_memory {
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
        if serves {
            self.command.set_read_timeout(Some(LOOK))?;
        }
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
    // Process id 0 would mean this process's group.
    if child > 0 {
        // SAFETY: the parent has not been waited for, so the child's id is still its own.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

fn start(program: &str, arguments: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

/// Processor time used by a process, its threads and its awaited children: a value that changes whenever they run.
/// Consists of the fields of `stat` after the name, which may contain anything.
fn processor_time(process: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(4).collect::<Vec<_>>().join(" ")
}

/// Resident private memory of a process in bytes.
fn resident(process: i32) -> u64 {
    status(process, "RssAnon:")
}

/// Address space of a process in bytes.
pub(crate) fn addresses(process: i32) -> u64 {
    status(process, "VmSize:")
}

/// A value from the kernel's status of a process, in bytes.
fn status(process: i32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Are all threads of a process in blocking calls, one of them for input or a connection?
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
