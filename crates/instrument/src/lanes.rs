//! Masked and scattered vector accesses.
//!
//! All of them become one of two calls: lanes are gathered from, or scattered to, an array of addresses
//! under a mask of bytes. The model splits wide accesses anyway, so nothing is lost.

use crashproof_protocol::abi::{PM_SHIFT, PM_WINDOW, kind};

use crate::instrument::{Instrumenter, Purpose};
use crate::sites::What;
use crashproof_frontend::llvm::{Type, Value};

/// Where the lanes of a vector are in memory.
#[derive(Clone, Copy)]
pub(crate) enum Place<'m> {
    /// One after the other from a pointer.
    Contiguous(Value<'m>),
    /// Consecutive enabled lanes, with no room for the others.
    Compressed(Value<'m>),
    /// Anywhere: a vector of pointers.
    Scattered(Value<'m>),
}

impl<'m> Instrumenter<'m> {
    /// A vector load. `mask` is a vector of one-bit integers, `otherwise` gives disabled lanes.
    pub(crate) fn gather(
        &mut self,
        call: Value<'m>,
        place: Place<'m>,
        mask: Value<'m>,
        otherwise: Value<'m>,
    ) {
        let ty = call.ty();
        let Some((pm, site)) = self.lanes_in_pm(call, place, ty, mask, kind::GATHER) else { return };
        self.divert(call, pm, |this| {
            let (addresses, mask) = this.lane_tables(call, place, ty, mask);
            let destination = this.spill(Purpose::Value, otherwise, call);
            let arguments = [destination, addresses, mask, this.lane_bytes(ty), this.lane_count(ty), site];
            this.runtime.call(&this.builder, "gather", &arguments);
            Some(this.builder.load(ty, destination, 16))
        });
    }

    /// A vector store.
    pub(crate) fn scatter(&mut self, call: Value<'m>, value: Value<'m>, place: Place<'m>, mask: Value<'m>) {
        let ty = value.ty();
        let Some((pm, site)) = self.lanes_in_pm(call, place, ty, mask, kind::SCATTER) else { return };
        self.divert(call, pm, |this| {
            let (addresses, mask) = this.lane_tables(call, place, ty, mask);
            let source = this.spill(Purpose::Value, value, call);
            let arguments = [addresses, source, mask, this.lane_bytes(ty), this.lane_count(ty), site];
            this.runtime.call(&this.builder, "scatter", &arguments);
            None
        });
    }

    /// AVX's own masked moves take the sign of each lane of an integer vector as its mask.
    pub(crate) fn sign_mask(&self, at: Value<'m>, mask: Value<'m>) -> Value<'m> {
        self.builder.before(at);
        self.builder.locate(at.debug_location());
        self.builder.less_signed(mask, mask.ty().null())
    }

    /// AVX2's gathers: a base, a vector of indices and a scale; the mask is the sign of each lane.
    pub(crate) fn gather_indexed(&mut self, call: Value<'m>) {
        let (otherwise, base, indices) = (call.operand(0), call.operand(1), call.operand(2));
        let (mask, scale) = (call.operand(3), call.operand(4));
        let (i64, count) = (self.module.i64, call.ty().lanes());
        if indices.ty().lanes() < count || mask.ty().lanes() != count {
            self.unknown_if_pm(call, &[base], "gather with more lanes than indices", false);
            return;
        }
        let lane_bits = self.module.bits(mask.ty().element()) as u32;
        self.builder.before(call);
        self.builder.locate(call.debug_location());
        let signs = self.builder.bit_cast(mask, self.module.int(lane_bits).vector_of(count));
        let enabled = self.builder.less_signed(signs, signs.ty().null());
        let start = self.builder.ptr_to_int(base, i64);
        let scale = i64.number(scale.as_number().unwrap_or(1));
        let mut addresses = i64.vector_of(count).null();
        for lane in 0..count {
            let lane = self.module.i32.number(lane.into());
            let index = self.builder.extract_lane(indices, lane);
            let index = self.builder.sign_extend(index, i64);
            let distance = self.builder.multiply(index, scale);
            let address = self.builder.add(start, distance);
            addresses = self.builder.insert_lane(addresses, address, lane);
        }
        let pointers = self.builder.int_to_ptr(addresses, self.module.ptr.vector_of(count));
        self.gather(call, Place::Scattered(pointers), enabled, otherwise);
    }

    fn lanes_in_pm(
        &mut self,
        call: Value<'m>,
        place: Place<'m>,
        ty: Type<'m>,
        mask: Value<'m>,
        kind: u8,
    ) -> Option<(Value<'m>, Value<'m>)> {
        // Lanes narrower than a byte would need packing; no instruction has them.
        let whole_bytes = ty.is_fixed_vector() && self.module.bits(ty.element()).is_multiple_of(8);
        if !whole_bytes {
            self.unknown_if_pm(call, &[], "vector access with lanes of odd size", false);
            return None;
        }
        let pm = match place {
            Place::Contiguous(pointer) | Place::Compressed(pointer) => {
                if self.is_volatile_memory(pointer) {
                    return None;
                }
                self.is_pm(pointer, call)
            }
            Place::Scattered(pointers) => self.any_lane_in_pm(call, pointers, mask),
        };
        let site = self.sites.of(call, What { kind, size: self.module.store_size(ty), ..What::default() });
        Some((pm, site))
    }

    fn any_lane_in_pm(&mut self, call: Value<'m>, pointers: Value<'m>, mask: Value<'m>) -> Value<'m> {
        let count = pointers.ty().lanes();
        let i64 = self.module.i64;
        self.builder.before(call);
        self.builder.locate(call.debug_location());
        let wide = i64.vector_of(count);
        let addresses = self.builder.ptr_to_int(pointers, wide);
        let windows = self.builder.shift_right(addresses, self.splat(i64.number(PM_SHIFT.into()), count));
        let pm = self.builder.equal(windows, self.splat(i64.number(PM_WINDOW), count));
        let enabled = self.builder.and(pm, mask);
        let bits = self.builder.bit_cast(enabled, self.module.int(count));
        let none = self.builder.equal(bits, self.module.int(count).number(0));
        self.builder.equal(none, self.module.i1.number(0))
    }

    fn splat(&self, element: Value<'m>, count: u32) -> Value<'m> {
        let mut vector = element.ty().vector_of(count).null();
        for lane in 0..count {
            vector = self.builder.insert_lane(vector, element, self.module.i32.number(lane.into()));
        }
        vector
    }

    /// Writes the addresses and the mask into scratch memory.
    fn lane_tables(
        &mut self,
        at: Value<'m>,
        place: Place<'m>,
        ty: Type<'m>,
        mask: Value<'m>,
    ) -> (Value<'m>, Value<'m>) {
        let count = ty.lanes();
        let (i8, i64) = (self.module.i8, self.module.i64);
        let mask_bytes = self.builder.resize(mask, i8.vector_of(count));
        let mask_table = self.spill(Purpose::Mask, mask_bytes, at);
        let addresses = match place {
            Place::Scattered(pointers) => self.builder.ptr_to_int(pointers, i64.vector_of(count)),
            Place::Contiguous(pointer) | Place::Compressed(pointer) => {
                let step = i64.number(self.module.store_size(ty.element()));
                let compressed = matches!(place, Place::Compressed(_));
                let mut address = self.builder.ptr_to_int(pointer, i64);
                let mut table = i64.vector_of(count).null();
                for lane in 0..count {
                    let lane = self.module.i32.number(lane.into());
                    table = self.builder.insert_lane(table, address, lane);
                    let advance = if compressed {
                        let enabled = self.builder.extract_lane(mask, lane);
                        let enabled = self.builder.resize(enabled, i64);
                        self.builder.multiply(enabled, step)
                    } else {
                        step
                    };
                    address = self.builder.add(address, advance);
                }
                table
            }
        };
        (self.spill(Purpose::Addresses, addresses, at), mask_table)
    }

    fn lane_bytes(&self, ty: Type<'m>) -> Value<'m> {
        self.module.i32.number(self.module.store_size(ty.element()))
    }

    fn lane_count(&self, ty: Type<'m>) -> Value<'m> {
        self.module.i32.number(ty.lanes().into())
    }
}
