//! Isolates the program under test from the rest of the machine: namespaces set up once per parked process, so
//! recoveries cost nothing more.
//!
//! - *user*: the same user, without rights to anything outside;
//! - *pid*: the parked process is process 1. Its children cannot signal it or any process outside, and all of them die
//!   with it, which dies with the checker;
//! - *network* and *IPC*: only the loopback device;
//! - *mount*: its own `/proc`; writes go to memory (see [`crate::subject::private_files`]).
//!
//! If the kernel does not permit all of it, less is used: [`Level`]. Between `fork` and `exec` only system calls are
//! made; everything they need is prepared before.

#![allow(unsafe_code, reason = "namespaces are made with system calls")]

use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::subject::private_files::{Directories, call, mount_private};

/// How much of the sandbox is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None of it.
    Off,
    /// All but private files.
    Processes,
    /// All of it.
    Full,
}

/// The lowest level that any start had to fall back to, for the whole process.
static PERMITTED: AtomicU32 = AtomicU32::new(Level::Full as u32);

fn permitted() -> Level {
    match PERMITTED.load(SeqCst) {
        0 => Level::Off,
        1 => Level::Processes,
        _ => Level::Full,
    }
}

/// The sandbox of a check. All its processes share one set of private files.
#[derive(Clone, Debug)]
pub struct Sandbox {
    wanted: bool,
    shared: Arc<Mutex<Weak<Shared>>>,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox { wanted: true, shared: Arc::default() }
    }
}

/// The namespaces shared by all processes of a check. The private files disappear with the last process.
#[derive(Debug)]
pub(crate) struct Shared {
    user: File,
    mounts: File,
}

impl Sandbox {
    /// No sandbox.
    pub fn off() -> Sandbox {
        Sandbox { wanted: false, ..Sandbox::default() }
    }
}

/// A started process, in a sandbox or not.
#[derive(Debug)]
pub(crate) struct Confined {
    process: libc::pid_t,
    level: Level,
    shared: Option<Arc<Shared>>,
}

/// What the new process reports before it executes the program, in shared memory.
#[repr(C)]
struct Told {
    /// Its process id outside the namespace.
    process: AtomicI32,
    /// The required confinement failed.
    failed: AtomicU32,
}

/// Memory for [`Told`].
struct Page(*mut Told);

// SAFETY: all of it is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> Result<Page> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping of zeros.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Told>(), rights, flags, -1, 0) };
        if page == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Page(page.cast())) }
    }

    fn told(&self) -> &Told {
        // SAFETY: mapped as long as this value lives; zeros are valid.
        unsafe { &*self.0 }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no longer used.
        unsafe { libc::munmap(self.0.cast(), size_of::<Told>()) };
    }
}

/// Why a start failed.
struct Failed {
    error: Error,
    /// The kernel does not permit this level.
    permits_less: bool,
}

/// Starts a command, confined as far as the kernel permits. `writes` are additional directories to which the program is
/// expected to write.
pub(crate) fn start(sandbox: &Sandbox, make: impl Fn() -> Command, writes: &[PathBuf]) -> Result<Confined> {
    if !sandbox.wanted {
        let process = make().spawn()?;
        return Ok(Confined { process: process.id() as i32, level: Level::Off, shared: None });
    }
    // One at a time, so that the first provides the files for the others.
    let mut known = sandbox.shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let level = permitted();
        if level == Level::Off {
            let process = make().spawn()?;
            return Ok(Confined { process: process.id() as i32, level, shared: None });
        }
        match start_at(level, make(), known.upgrade(), writes) {
            Ok(confined) => {
                if let Some(shared) = &confined.shared {
                    *known = Arc::downgrade(shared);
                }
                return Ok(confined);
            }
            Err(Failed { permits_less: true, .. }) => {
                PERMITTED.fetch_min(level as u32 - 1, SeqCst);
            }
            Err(Failed { error, .. }) => return Err(error),
        }
    }
}

fn start_at(
    level: Level,
    mut command: Command,
    shared: Option<Arc<Shared>>,
    writes: &[PathBuf],
) -> std::result::Result<Confined, Failed> {
    let failed = |error| Failed { error, permits_less: false };
    let page = Arc::new(Page::new().map_err(failed)?);
    let directories = match level {
        Level::Full if shared.is_none() => Directories::find(writes),
        _ => Directories::default(),
    };
    let identity = Identity::find();
    let inside = Inside { level, shared: shared.clone(), directories, identity, page: Arc::clone(&page) };
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(move || inside.enter()) };
    let spawned = command.spawn();
    let told = page.told();
    let process = told.process.load(SeqCst);
    match spawned {
        Ok(mut between) => {
            // It has already ended, after creating the process that counts.
            between.wait().map_err(failed)?;
        }
        Err(error) => {
            if process > 0 {
                end(process);
            }
            return Err(Failed { error, permits_less: told.failed.load(SeqCst) != 0 });
        }
    }
    let mut confined = Confined { process, level, shared };
    if level == Level::Full && confined.shared.is_none() {
        let open = |name: &str| File::open(format!("/proc/{process}/ns/{name}")).ok();
        // `None` if it has already ended.
        if let (Some(user), Some(mounts)) = (open("user"), open("mnt")) {
            confined.shared = Some(Arc::new(Shared { user, mounts }));
        }
    }
    Ok(confined)
}

impl Confined {
    /// Its process id, as seen by the checker.
    pub(crate) fn id(&self) -> u32 {
        self.process as u32
    }

    /// Ends it and everything it started; returns its status.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let process = std::mem::replace(&mut self.process, 0);
        (process > 0).then(|| end(process))
    }

    /// The process id, as seen by the checker, of a child whose own id is `inside`; the first lookup takes a while. A
    /// child that cannot be found has ended.
    pub(crate) fn child(&self, inside: i32) -> i32 {
        if self.level == Level::Off {
            return inside;
        }
        let inner = inside.to_string();
        let is_it = |process: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            numbers.and_then(|numbers| numbers.split_whitespace().next_back()) == Some(inner.as_str())
        };
        let path = format!("/proc/{0}/task/{0}/children", self.process);
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().flat_map(str::parse).find(is_it).unwrap_or(0)
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a child of this process and waits for it.
fn end(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the child has not been waited for, so its id is still its own; the kernel writes the status.
    unsafe {
        libc::kill(process, libc::SIGKILL);
        while libc::waitpid(process, &raw mut status, 0) < 0
            && Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
    }
    status
}

/// The user and group of the process, inside and outside.
struct Identity {
    users: Vec<u8>,
    groups: Vec<u8>,
    /// Mappings of all users, for a privileged process: the kernel accepts them only from a process outside.
    all_users: Option<(Vec<u8>, Vec<u8>)>,
}

impl Identity {
    fn find() -> Identity {
        // SAFETY: queries without side effects.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let all = |file: &str| {
            let lines = std::fs::read_to_string(file).ok()?;
            let same = lines.lines().filter_map(|line| {
                let mut numbers = line.split_whitespace();
                let (inside, count) = (numbers.next()?, numbers.nth(1)?);
                Some(format!("{inside} {inside} {count}\n"))
            });
            Some(same.collect::<String>().into_bytes())
        };
        let both = || Some((all("/proc/self/uid_map")?, all("/proc/self/gid_map")?));
        Identity {
            users: format!("{user} {user} 1\n").into_bytes(),
            groups: format!("{group} {group} 1\n").into_bytes(),
            all_users: both().filter(|_| user == 0),
        }
    }
}

/// What a new process does before it executes the program.
struct Inside {
    level: Level,
    shared: Option<Arc<Shared>>,
    directories: Directories,
    identity: Identity,
    page: Arc<Page>,
}

/// Writes a small file in one call.
fn put(path: &CStr, bytes: &[u8]) -> Result<()> {
    // SAFETY: the kernel only reads path and bytes.
    unsafe {
        let file = call(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC).into())? as i32;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let result = call(written as i64);
        libc::close(file);
        result.map(drop)
    }
}

impl Inside {
    /// Enters the sandbox. Returns in a different process than its caller, the first of its namespace.
    fn enter(&self) -> Result<()> {
        let told = self.page.told();
        let result = self.join_or_create().and_then(|()| self.become_first()).and_then(|()| self.arrange());
        if result.is_err() {
            told.failed.store(1, SeqCst);
        }
        result
    }

    fn join_or_create(&self) -> Result<()> {
        const OWN: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
        // SAFETY: changes only what this process sees.
        unsafe {
            if let Some(shared) = &self.shared {
                call(libc::setns(shared.user.as_raw_fd(), libc::CLONE_NEWUSER).into())?;
                call(libc::setns(shared.mounts.as_raw_fd(), libc::CLONE_NEWNS).into())?;
                // A duplicate with the same files, and room for its own /proc.
                return call(libc::unshare(OWN | libc::CLONE_NEWNS).into()).map(drop);
            }
            let mounts = if self.level == Level::Full { libc::CLONE_NEWNS } else { 0 };
            match &self.identity.all_users {
                Some((users, groups)) => {
                    unlimited_locked_memory();
                    with_help_from_outside(users, groups, OWN | mounts)
                }
                None => {
                    call(libc::unshare(libc::CLONE_NEWUSER | OWN | mounts).into())?;
                    self.stay_the_same_user()
                }
            }
        }
    }

    fn stay_the_same_user(&self) -> Result<()> {
        put(c"/proc/self/setgroups", b"deny")?;
        put(c"/proc/self/gid_map", &self.identity.groups)?;
        put(c"/proc/self/uid_map", &self.identity.users)
    }

    /// Continues in a sibling: a process that creates a pid namespace is not itself in it.
    fn become_first(&self) -> Result<()> {
        // SAFETY: a copy of this process continues, which is also a child of the checker.
        unsafe {
            let flags = libc::CLONE_PARENT | libc::SIGCHLD;
            let process = call(libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0))?;
            if process > 0 {
                self.page.told().process.store(process as i32, SeqCst);
                libc::_exit(0);
            }
            call(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
            libc::setpgid(0, 0);
        }
        Ok(())
    }

    fn arrange(&self) -> Result<()> {
        raise_loopback();
        if self.level == Level::Full {
            if self.shared.is_none() {
                mount_private(&self.directories)?;
            }
            // If that is not permitted the old one stays: it lists other processes, but gives no access to them.
            // SAFETY: the kernel only reads the names.
            unsafe {
                let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                let (kind, place) = (c"proc".as_ptr(), c"/proc".as_ptr());
                libc::mount(kind, place, kind, flags, std::ptr::null());
            }
            self.directories.enter_current()?;
        }
        // Otherwise root could undo all this.
        for capability in [CAP_SYS_PTRACE, CAP_SYS_ADMIN] {
            // SAFETY: only removes a capability from this process. Only root has it after `exec`.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        Ok(())
    }
}

const CAP_SYS_PTRACE: libc::c_ulong = 19;
const CAP_SYS_ADMIN: libc::c_ulong = 21;

/// Root outside may lock all memory; root inside only up to the limit.
fn unlimited_locked_memory() {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel only reads the limit. If the call fails, the old limit remains.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
}

/// Creates namespaces with all users mapped, which requires a process that stays outside.
fn with_help_from_outside(users: &[u8], groups: &[u8], namespaces: i32) -> Result<()> {
    // SAFETY: a copy of this process only makes system calls and ends.
    unsafe {
        let mut pipe = [0; 2];
        call(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC).into())?;
        let helper = call(libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0))? as i32;
        if helper == 0 {
            libc::close(pipe[1]);
            let mut ready = 0_u8;
            let asked = libc::read(pipe[0], (&raw mut ready).cast(), 1) == 1;
            let of_parent = |name: &[u8], text: &[u8]| {
                let mut path = [0; 64];
                put(path_of_process(libc::getppid(), name, &mut path), text)
            };
            let done = asked && of_parent(b"gid_map", groups).is_ok() && of_parent(b"uid_map", users).is_ok();
            libc::_exit(i32::from(!done));
        }
        libc::close(pipe[0]);
        let made = call(libc::unshare(libc::CLONE_NEWUSER | namespaces).into());
        if made.is_ok() {
            libc::write(pipe[1], [1_u8].as_ptr().cast(), 1);
        }
        libc::close(pipe[1]);
        let mut status = 0;
        while libc::waitpid(helper, &raw mut status, 0) < 0
            && Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
        made?;
        if status == 0 { Ok(()) } else { Err(Error::from_raw_os_error(libc::EPERM)) }
    }
}

/// The path of a file in `/proc` for a process, built without allocating.
fn path_of_process<'a>(process: i32, name: &[u8], buffer: &'a mut [u8; 64]) -> &'a CStr {
    let mut digits = [0; 10];
    let (mut rest, mut first) = (process.unsigned_abs(), digits.len());
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut end = 0;
    for part in [b"/proc/", &digits[first..], b"/", name] {
        buffer[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
}

/// The loopback device is down in a new network namespace; servers and their clients need it.
fn raise_loopback() {
    // SAFETY: a socket of its own; the kernel reads the request, which is plain data.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        (request.ifr_name[0], request.ifr_name[1]) = (b'l' as _, b'o' as _);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
    }
}

/// The level that the kernel permits here, determined by trying.
pub fn permitted_level() -> Level {
    let trial = start(&Sandbox::default(), || Command::new("/bin/true"), &[]);
    drop(trial);
    permitted()
}
