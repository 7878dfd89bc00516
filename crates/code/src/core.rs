//! An out-of-order core whose accesses all hit the L1 cache.
//!
//! For each instruction in program order:
//!
//! 1. It is dispatched: at most `width` operations a cycle, after the instruction one reorder buffer earlier has
//!    retired, and after the last mispredicted branch.
//! 2. It executes when its operands are ready and a port is free, and its result is ready after the latency of its
//!    class. A load adds the latency of the L1 cache, or takes its value from an earlier store.
//! 3. It retires after all instructions before it.
//!
//! Each value keeps its origins: the loads that it was computed from, with the cycles of arithmetic since each. A load
//! that is older than the reorder buffer has retired, so nothing waits for it.
//!
//! Known limits: ports serve in program order. The front end's caches and the prediction of indirect jumps are perfect.

use crate::class::Class;
use crate::instruction::{Decoded, Flow, REGISTERS, Registers};
use crate::microarchitecture::Microarchitecture;
use crate::predictor::Predictor;

/// The number of loads that a value keeps as origins.
const REMEMBERED: usize = 4;
/// The number of words whose last store is kept.
const STORES: usize = 1024;
/// The most bytes that a string instruction with a repeat prefix moves in a cycle (Intel 64 and IA-32 Architectures
/// Optimization Reference Manual, enhanced REP MOVSB and STOSB). All cores use this value, though some are slower.
const REPEATED_BYTES: f64 = 32.0;

/// A load that contributed to a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Origin {
    /// The load's site.
    pub(crate) site: u16,
    /// Cycles of arithmetic since the load.
    pub(crate) cycles: f64,
    /// The load's number among all executed instructions.
    place: u64,
}

/// The loads that a value was computed from: at most one per site, the latest ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origins {
    all: [Origin; REMEMBERED],
    number: usize,
}

impl Origins {
    fn of(site: u16, place: u64) -> Self {
        let mut origins = Self::default();
        origins.add(Origin {
            site,
            cycles: 0.0,
            place,
        });
        origins
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Origin> {
        self.all[..self.number].iter()
    }

    fn add(&mut self, origin: Origin) {
        if let Some(known) = self.all[..self.number]
            .iter_mut()
            .find(|known| known.site == origin.site)
        {
            // If one load executed twice, the later execution counts, and the longer path from it.
            if origin.place > known.place || (origin.place == known.place && origin.cycles > known.cycles) {
                *known = origin;
            }
        } else if self.number < REMEMBERED {
            self.all[self.number] = origin;
            self.number += 1;
        } else if let Some(oldest) = self.all.iter_mut().min_by_key(|known| known.place)
            && oldest.place < origin.place
        {
            *oldest = origin;
        }
    }

    fn join(&mut self, others: &Self, oldest: u64) {
        for &origin in others.iter().filter(|origin| origin.place >= oldest) {
            self.add(origin);
        }
    }

    fn later(mut self, cycles: f64) -> Self {
        for origin in &mut self.all[..self.number] {
            origin.cycles += cycles;
        }
        self
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Value {
    ready: f64,
    origins: Origins,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    word: u64,
    place: u64,
    value: Value,
}

/// The memory access of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) site: u16,
    pub(crate) address: u64,
}

/// The origins that matter for an executed instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executed {
    /// The loads that the address of its memory access was computed from.
    pub(crate) address: Origins,
    /// The loads that a mispredicted branch waited for. `None` for other instructions.
    pub(crate) mispredicted: Option<Origins>,
}

pub(crate) struct Core<'m> {
    machine: &'m Microarchitecture,
    load_latency: f64,
    /// When the next operation is dispatched.
    front: f64,
    ports: Vec<f64>,
    registers: [Value; REGISTERS],
    stores: Vec<Stored>,
    /// The times when the last instructions retired, as a ring.
    retirements: Vec<f64>,
    retired: f64,
    place: u64,
    /// The result of the last instruction that accessed memory.
    result: Value,
    fuses: Option<Class>,
    /// The address of the last instruction.
    address: u64,
    predictor: Predictor,
}

impl<'m> Core<'m> {
    pub(crate) fn new(machine: &'m Microarchitecture, load_latency: f64, reorder_buffer: usize) -> Self {
        Self {
            machine,
            load_latency,
            front: 0.0,
            ports: vec![0.0; machine.ports],
            registers: [Value::default(); REGISTERS],
            stores: vec![Stored::default(); STORES],
            retirements: vec![0.0; reorder_buffer.max(1)],
            retired: 0.0,
            place: 0,
            result: Value::default(),
            fuses: None,
            address: 0,
            predictor: Predictor::new(),
        }
    }

    /// The time when the last instruction retired, in cycles.
    pub(crate) fn time(&self) -> f64 {
        self.retired
    }

    /// Executes the next repetition of an instruction with a repeat prefix. Microcode knows the addresses in advance,
    /// and moves up to `REPEATED_BYTES` a cycle.
    fn execute_again(&mut self, instruction: &Decoded, memory: Option<Memory>) -> Executed {
        let share = f64::from(instruction.bits.clamp(8, 64)) / 8.0 / REPEATED_BYTES;
        let dispatched = self.dispatch(self.machine.pipeline.width * share, instruction.class);
        self.result = Value {
            ready: dispatched,
            origins: Origins::default(),
        };
        if let Some(memory) = memory.filter(|_| instruction.stores) {
            self.store(memory.address, self.result);
        }
        self.retire(dispatched);
        Executed::default()
    }

    /// Executes the next instruction. `taken` is the outcome of a conditional branch, `memory` is the access.
    pub(crate) fn execute(&mut self, instruction: &Decoded, taken: Option<bool>, memory: Option<Memory>) -> Executed {
        let row = *self.machine.row(instruction.class);
        self.place += 1;
        let before = std::mem::replace(&mut self.address, instruction.address);
        if instruction.repeats && before == instruction.address {
            return self.execute_again(instruction, memory);
        }
        let fused = self.fused(instruction);
        let dispatched = self.dispatch(if fused { 0.0 } else { row.operations }, instruction.class);
        let busy = row.busy
            * match instruction.bits {
                0..256 => 1.0,
                256..512 => self.machine.pipeline.busy_256,
                _ => self.machine.pipeline.busy_512,
            };
        let address = self.operands(instruction.address_reads, dispatched);
        let mut operands = self.operands(instruction.reads, dispatched);
        if instruction.loads {
            let loaded = self.load(instruction, &address, dispatched, memory);
            operands.ready = operands.ready.max(loaded.ready);
            operands.origins.join(&loaded.origins, self.oldest());
        }
        let port = if fused {
            dispatched
        } else {
            self.port(row.ports, dispatched, busy)
        };
        let result = Value {
            ready: operands.ready.max(port) + row.latency,
            origins: operands.origins.later(row.latency),
        };
        if instruction.stores {
            self.port(self.machine.store_ports, dispatched, self.machine.access_busy);
            if let Some(memory) = memory {
                self.store(memory.address, result);
            }
        }
        for register in bits(instruction.writes) {
            self.registers[register] = result;
        }
        if instruction.accesses() {
            self.result = result;
        }
        self.retire(result.ready);
        if instruction.class == Class::Serial {
            self.front = self.front.max(self.retired);
        }
        Executed {
            address: address.origins,
            mispredicted: taken.and_then(|taken| self.branch(instruction.address, taken, &result)),
        }
    }

    /// The last instruction also stores to `address`.
    pub(crate) fn also_stores(&mut self, address: u64) {
        self.store(address, self.result);
    }

    /// Whether the branch fuses with the comparison before it into one operation.
    fn fused(&mut self, instruction: &Decoded) -> bool {
        let pipeline = &self.machine.pipeline;
        let before = self.fuses.take();
        let branches = matches!(instruction.flow, Flow::Condition(_));
        if instruction.fuses {
            self.fuses = Some(instruction.class);
        }
        let compares = before.is_some();
        branches && compares && (pipeline.fuses_compare || pipeline.fuses_arithmetic)
    }

    fn dispatch(&mut self, operations: f64, class: Class) -> f64 {
        let ring = self.retirements.len() as u64;
        let room = self.retirements[usize::try_from(self.place % ring).unwrap_or(0)];
        self.front = (self.front + operations / self.machine.pipeline.width).max(room);
        if class == Class::Serial {
            self.front = self.front.max(self.retired);
        }
        self.front
    }

    fn retire(&mut self, ready: f64) {
        self.retired = self.retired.max(ready);
        let ring = self.retirements.len() as u64;
        self.retirements[usize::try_from(self.place % ring).unwrap_or(0)] = self.retired;
    }

    /// The number of the earliest instruction that may not have retired.
    fn oldest(&self) -> u64 {
        self.place.saturating_sub(self.retirements.len() as u64)
    }

    fn operands(&self, registers: Registers, dispatched: f64) -> Value {
        let mut value = Value {
            ready: dispatched,
            origins: Origins::default(),
        };
        let oldest = self.oldest();
        for register in bits(registers) {
            let operand = &self.registers[register];
            value.ready = value.ready.max(operand.ready);
            value.origins.join(&operand.origins, oldest);
        }
        value
    }

    /// Occupies one of the ports for `busy` cycles. Returns when the port becomes free.
    fn port(&mut self, ports: u32, dispatched: f64, busy: f64) -> f64 {
        let free = |port: &usize| self.ports[*port].max(dispatched);
        let ports = (0..self.ports.len()).filter(|port| ports >> port & 1 == 1);
        let Some(port) = ports.min_by(|a, b| free(a).total_cmp(&free(b))) else {
            return dispatched;
        };
        let begin = free(&port);
        self.ports[port] = begin + busy;
        // Operations that wait for a port fill the scheduler, and a full scheduler stops dispatch.
        let waiting = self.machine.pipeline.scheduler / self.machine.pipeline.width;
        self.front = self.front.max(begin - waiting);
        begin
    }

    fn load(&mut self, instruction: &Decoded, address: &Value, dispatched: f64, memory: Option<Memory>) -> Value {
        let port = self.port(self.machine.load_ports, dispatched, self.machine.access_busy);
        let begin = address.ready.max(port);
        let pipeline = &self.machine.pipeline;
        if let Some(memory) = memory {
            let stored = &self.stores[slot(memory.address)];
            if stored.word == memory.address / 8 && stored.place >= self.oldest() && stored.place > 0 {
                return Value {
                    ready: begin.max(stored.value.ready) + pipeline.forward,
                    origins: stored.value.origins.later(pipeline.forward),
                };
            }
        }
        let vector = if instruction.bits >= 128 {
            pipeline.vector_load
        } else {
            0.0
        };
        Value {
            ready: begin + self.load_latency + vector,
            origins: memory.map_or_else(Origins::default, |memory| Origins::of(memory.site, self.place)),
        }
    }

    fn store(&mut self, address: u64, value: Value) {
        self.stores[slot(address)] = Stored {
            word: address / 8,
            place: self.place,
            value,
        };
    }

    fn branch(&mut self, address: u64, taken: bool, condition: &Value) -> Option<Origins> {
        if self.predictor.predicts(address, taken) {
            return None;
        }
        self.front = self.front.max(condition.ready + self.machine.pipeline.mispredict);
        Some(condition.origins)
    }
}

fn slot(address: u64) -> usize {
    usize::try_from(address / 8 % STORES as u64).unwrap_or(0)
}

/// The numbers of the registers in a set.
fn bits(mut set: Registers) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (lowest < REGISTERS).then_some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction::Reader;

    fn machine() -> Microarchitecture {
        Microarchitecture::builtin("skylake_sp").unwrap()
    }

    /// Cycles per execution of a block that is executed many times. Its accesses start at `address` and advance by
    /// `step`.
    fn cycles(bytes: &[u8], address: u64, step: u64) -> f64 {
        let machine = machine();
        let block = Reader::new().block(0x1000, bytes);
        let mut core = Core::new(&machine, 4.0, 224);
        let mut half = 0.0;
        for time in 0..2000u64 {
            if time == 1000 {
                half = core.time();
            }
            for (site, instruction) in (0..).zip(&block) {
                let memory = instruction.accesses().then_some(Memory {
                    site,
                    address: address + time * step,
                });
                core.execute(instruction, None, memory);
            }
        }
        (core.time() - half) / 1000.0
    }

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 0.05 * expected,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn a_chain_takes_its_latencies() {
        near(cycles(&[0xf2, 0x0f, 0x58, 0xc1], 0, 0), 4.0); // addsd xmm0, xmm1
        near(cycles(&[0x48, 0x0f, 0xaf, 0xc0], 0, 0), 3.0); // imul rax, rax
        near(cycles(&[0x48, 0x8b, 0x00], 0x1000, 64), 4.0); // mov rax, [rax]
    }

    #[test]
    fn independent_instructions_take_ports_and_width() {
        // imul rax, rbx, 3; imul rcx, rbx, 3: one port
        near(cycles(&[0x48, 0x6b, 0xc3, 0x03, 0x48, 0x6b, 0xcb, 0x03], 0, 0), 2.0);
        // mov rax, [rdi]; mov rcx, [rdi]; mov rdx, [rdi]: two ports
        near(
            cycles(&[0x48, 0x8b, 0x07, 0x48, 0x8b, 0x0f, 0x48, 0x8b, 0x17], 0x1000, 64),
            1.5,
        );
        // nop: only the width
        near(cycles(&[0x90], 0, 0), 0.25);
    }

    #[test]
    fn a_value_goes_through_memory_to_a_load_of_it() {
        // add [rdi], rax: the load takes the value of the previous store
        near(cycles(&[0x48, 0x01, 0x07], 0x1000, 0), 6.0);
        assert!(cycles(&[0x48, 0x01, 0x07], 0x1000, 64) < 1.5);
    }

    #[test]
    fn a_repeated_string_instruction_is_no_chain() {
        near(cycles(&[0xf3, 0x48, 0xa5], 0x1000, 8), 0.25); // rep movsq: 8 of 32 bytes
        assert!(cycles(&[0x48, 0xa5], 0x1000, 8) > 1.0); // movsq
    }

    #[test]
    fn origins_are_loads_and_the_arithmetic_since() {
        let machine = machine();
        // mov rax, [rdi]; imul rax, rax; mov rcx, [rbx + rax]
        let bytes = [0x48, 0x8b, 0x07, 0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x8b, 0x0c, 0x03];
        let block = Reader::new().block(0x1000, &bytes);
        let mut core = Core::new(&machine, 4.0, 224);
        let load = |site| Some(Memory { site, address: 0x5000 });
        core.execute(&block[0], None, load(7));
        core.execute(&block[1], None, None);
        let executed = core.execute(&block[2], None, load(9));
        let origins: Vec<(u16, f64)> = executed
            .address
            .iter()
            .map(|origin| (origin.site, origin.cycles))
            .collect();
        assert_eq!(origins, [(7, 3.0)]);
    }
}
