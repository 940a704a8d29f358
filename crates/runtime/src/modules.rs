//! Instrumented modules of the program: each registers its sites, an array of fixed-size descriptions.

use std::ffi::c_void;

use crashproof_protocol::abi::Site;

use crate::cell::RunningThreadCell;
use crate::system::give_up;

/// A module's sites, and the number of the first.
#[derive(Clone, Copy)]
pub(crate) struct Module {
    begin: usize,
    end: usize,
    first: u32,
}

impl Module {
    pub(crate) const NONE: Module = Module { begin: 0, end: 0, first: 0 };

    /// The number of the site at an address, if it belongs to the module.
    #[inline(always)]
    pub(crate) fn number(&self, at: usize) -> Option<u32> {
        let offset = at.wrapping_sub(self.begin);
        (offset < self.end - self.begin).then(|| self.first + (offset / size_of::<Site>()) as u32)
    }

    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    pub(crate) fn sites(&self) -> &'static [Site] {
        let count = (self.end - self.begin) / size_of::<Site>();
        // SAFETY: the plugin emitted the array; it is never written, and modules with sites are never unloaded.
        unsafe { std::slice::from_raw_parts(self.begin as *const Site, count) }
    }
}

const MAX_MODULES: usize = 4096;

/// Fixed in size because it is used before allocation is possible.
struct Registered {
    modules: [Module; MAX_MODULES],
    count: usize,
}

impl Registered {
    fn all(&self) -> &[Module] {
        &self.modules[..self.count]
    }
}

static REGISTERED: RunningThreadCell<Registered> =
    RunningThreadCell::new(Registered { modules: [Module::NONE; MAX_MODULES], count: 0 });

/// Registers a module; its sites are numbered after those of earlier modules.
pub(crate) fn register(begin: *const Site, end: *const Site) {
    REGISTERED.with(|registered| {
        if registered.count == MAX_MODULES {
            give_up("more than 4096 modules");
        }
        let first = registered.all().last().map_or(1, |last| last.first + last.sites().len() as u32);
        registered.modules[registered.count] = Module { begin: begin as usize, end: end as usize, first };
        registered.count += 1;
    });
}

pub(crate) fn count() -> u32 {
    REGISTERED.with(|registered| registered.count as u32)
}

pub(crate) fn at(index: u32) -> Module {
    REGISTERED.with(|registered| registered.all()[index as usize])
}

/// The module that owns the site at an address.
pub(crate) fn of_site(at: usize) -> Option<Module> {
    REGISTERED.with(|registered| registered.all().iter().find(|module| module.number(at).is_some()).copied())
}

/// Is the library or program that contains an address instrumented?
pub(crate) fn is_instrumented(address: *const c_void) -> bool {
    (0..count()).any(|index| linked_together(at(index).begin as *const c_void, address))
}

/// Are two addresses in the same program or library?
pub(crate) fn linked_together(one: *const c_void, other: *const c_void) -> bool {
    let start = |address: *const c_void| {
        // SAFETY: all-zero bytes are a valid structure of pointers; `dladdr` only looks up the address.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            (libc::dladdr(address, &raw mut info) != 0).then_some(info.dli_fbase)
        }
    };
    start(one).is_some_and(|start_of_one| start(other) == Some(start_of_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_numbered_in_order() {
        let bytes = size_of::<Site>();
        let module = Module { begin: 1 << 20, end: (1 << 20) + 3 * bytes, first: 7 };
        assert_eq!(module.number(1 << 20), Some(7));
        assert_eq!(module.number((1 << 20) + 2 * bytes), Some(9));
        assert_eq!(module.number((1 << 20) + 3 * bytes), None);
        assert_eq!(module.number((1 << 20) - 1), None);
        assert_eq!(Module::NONE.number(0), None);
    }
}
