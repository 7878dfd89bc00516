"""A machine of four NUMA nodes with processors and one with memory only, emulated, for tests of the real binary.

1. `Guest.build` makes an initial file system with busybox, the release binary and the agent with their libraries, the
   workloads, and the programs of tests/programs and tests/guest/programs, linked statically. Those of the folder openmp
   are built by gcc and by clang, each with its OpenMP runtime as a shared library.
2. `Guest.boot` starts qemu-system with Debian's kernel on it. It uses TCG, so it needs no virtualisation.
3. In the guest an init script (tests/guest/init) sets up file systems. Then it executes the scripts that `Guest.run`
   sends through a virtio port, one after the other, and returns their output and exit status.

A script that does not return in time, or a guest that dies, fails the test with the end of the console's output. The
next test boots another guest. Where something is missing, `missing` names it.

The guest ends with the tests: its init ends when the port is closed, and the kernel kills QEMU when the tests' process
ends.

Times in the guest have no meaning: processors are emulated and share the host's, and all nodes are equally far.
"""

import base64
import lzma
import os
import platform
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What a guest is made of. Tests that run at the same time have a folder each: GUEST in the environment names it.
FOLDER = ROOT / "target" / "guest" / os.environ.get("GUEST", "one")

#: Where `scripts/setup` unpacks Debian's kernel package.
KERNEL = ROOT / "target" / "guest" / "kernel"

#: Where it unpacks one that can load a scheduler (sched_ext).
SCHEDULER_KERNEL = ROOT / "target" / "guest" / "scheduler-kernel"

#: The nodes with processors; each is a package. CPUs 2n and 2n + 1 are node n. Node 4 has memory and no CPU.
PACKAGES = 4
CORES = 2
"""The cores of a package, where a guest is not made with another number."""
CPUS = PACKAGES * CORES
NODES = {0: 512, 1: 512, 2: 512, 3: 512, 4: 256}
"""MiB of each node."""

DEVICES = {1: "e1000", 2: "secondary-vga"}
"""The devices of nodes, each on a PCI bus of its node."""

#: The distances of nodes: a square, and node 4 behind node 3.
DISTANCES = {
    (0, 1): 21,
    (0, 2): 21,
    (0, 3): 31,
    (0, 4): 41,
    (1, 2): 31,
    (1, 3): 21,
    (1, 4): 31,
    (2, 3): 21,
    (2, 4): 31,
    (3, 4): 17,
}

#: Kernel modules in the order in which they are loaded.
MODULES = (
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/char/virtio_console.ko",
    "arch/x86/kernel/msr.ko",
)

#: Programs of tests/programs for the guest; each is one file of C with POSIX threads.
SHARED_PROGRAMS = ("heir", "idle", "own_mask", "owners", "spin", "steps")

#: The compilers of OpenMP programs. A program NAME is `NAME-COMPILER` in the guest.
OPENMP_COMPILERS = ("gcc", "clang")

#: Seconds for a boot. It takes about ten, and longer on a busy host.
BOOT = 90
#: How often a boot is tried. Once in hundreds of boots an emulated machine with several processors stops before its
#: kernel prints anything.
BOOTS = 3
#: Seconds for a script without another limit.
PATIENCE = 120


class GuestError(Exception):
    """The guest failed."""


class LockupError(GuestError):
    """A processor of the guest does not leave the kernel: it repeated a page fault there for ever.

    That was seen in a shell, and is no fault of what is measured.
    """


@dataclass(frozen=True)
class Run:
    """An ended script of the guest."""

    status: int
    out: str


def missing() -> str | None:
    """Return what is missing for a guest here, or None where one can be booted."""
    if platform.machine() != "x86_64":
        return f"the guest's kernel is for x86_64, and this is {platform.machine()}"
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian package {package}); scripts/setup installs it as root"
    if not list(KERNEL.glob("boot/vmlinuz-*")):
        return f"there is no kernel in {KERNEL}; scripts/setup gets it from Debian's archive"
    return None


def missing_scheduler() -> str | None:
    """Return what is missing for a guest that can load a scheduler, or None where one can be booted."""
    if why := missing():
        return why
    if not list(SCHEDULER_KERNEL.glob("**/vmlinuz*")):
        return f"there is no kernel in {SCHEDULER_KERNEL}; scripts/setup gets it from Debian's backports"
    return None


def _found(folder: Path, name: str) -> Path:
    """Return the one file of a folder whose name begins so."""
    (file,) = (file for file in folder.glob(f"**/{name}*") if file.is_file())
    return file


def libraries(binary: Path) -> list[Path]:
    """List the shared libraries of a binary, and its loader; none for a static one."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed.stdout)]


class Guest:
    """The machine. It is booted when it is first needed, and again after it was ended."""

    name = ""
    kernel = KERNEL
    side_by_side = True
    """Whether its CPUs are emulated side by side."""

    def __init__(
        self,
        binary: Path,
        agent: Path,
        workloads: Path,
        cores: int = CORES,
        distances: Mapping[tuple[int, int], int] = DISTANCES,
    ) -> None:
        """Take the binary, the agent and the folder of workloads that the guest gets, and the shape of the machine."""
        self._folder = FOLDER / self.name
        self._cores = cores
        self._distances = distances
        self._binary = binary
        self._agent = agent
        self._workloads = workloads
        self._qemu: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self._received = b""
        self._image: Path | None = None

    def run(self, script: str, patience: float = PATIENCE) -> Run:
        """Execute a shell script in the guest; `out` has its standard output and standard error.

        Its background processes continue for the next script.
        """
        if self._qemu is None:
            self.boot()
        assert self._port
        try:
            self._port.sendall(base64.b64encode(script.encode()) + b"\n")
            status, length = self._line(patience).split()
            return Run(int(status), self._bytes(int(length), patience).decode(errors="replace"))
        except (OSError, ValueError, GuestError) as error:
            tail = self.console()
            self.give_up()
            kind = LockupError if "soft lockup" in tail else GuestError
            raise kind(f"{error} in:\n{script}\nThe console's last lines:\n{tail}") from None

    def check(self, script: str, patience: float = PATIENCE) -> str:
        """Execute a script that must end with 0, and return its output. It ends at the first failed command."""
        run = self.run(f"set -e\n{script}", patience)
        assert run.status == 0, f"status {run.status} of:\n{script}\n{run.out}"
        return run.out

    def pages(self, process: int) -> dict[int, dict[int, int]]:
        """Read numa_maps: the number of pages on each node, by the start of their area."""
        areas = {}
        for line in self.check(f"cat /proc/{process}/numa_maps").splitlines():
            areas[int(line.split()[0], 16)] = {int(node): int(n) for node, n in re.findall(r" N(\d+)=(\d+)", line)}
        return areas

    def boot(self) -> None:
        """Boot the guest; return when it takes scripts."""
        if self._image is None:
            self._image = self.build()
        for left in reversed(range(BOOTS)):
            try:
                return self._boot(self._image)
            except GuestError as error:
                if left == 0:
                    raise
                print(f"{error}\nIt is booted again.")

    def _boot(self, image: Path) -> None:
        """Boot the guest from this image."""
        kernel = _found(self.kernel, "vmlinuz")
        ours, theirs = socket.socketpair()
        with theirs:
            self._qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._command(kernel, image, theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=(self._folder / "qemu.log").open("wb"),
                stderr=subprocess.STDOUT,
            )
        self._port = ours
        self._received = b""
        try:
            ready = self._line(BOOT)
        except (OSError, GuestError) as error:
            log = (self._folder / "qemu.log").read_text(errors="replace")
            tail = self.console()
            self.give_up()
            raise GuestError(f"the guest did not boot: {error}\n{log}\nThe console's last lines:\n{tail}") from None
        if ready != b"ready":
            self.give_up()
            raise GuestError(f"the guest sent {ready!r}")

    def _command(self, kernel: Path, image: Path, port: int) -> list[str]:
        """Return QEMU's command line."""
        threads = "multi" if self.side_by_side else "single"
        command = ["qemu-system-x86_64", "-machine", "pc", "-accel", f"tcg,thread={threads}", "-cpu", "max"]
        command += [] if self.side_by_side else ["-icount", "shift=3"]
        cpus = PACKAGES * self._cores
        command += ["-smp", f"{cpus},sockets={PACKAGES},cores={self._cores}", "-m", f"{sum(NODES.values())}M"]
        for node, size in NODES.items():
            first = node * self._cores
            its_cpus = f",cpus={first}-{first + self._cores - 1}" if node < PACKAGES else ""
            command += ["-object", f"memory-backend-ram,id=memory{node},size={size}M"]
            command += ["-numa", f"node,nodeid={node},memdev=memory{node}{its_cpus}"]
        for (one, other), distance in self._distances.items():
            command += ["-numa", f"dist,src={one},dst={other},val={distance}"]
        command += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        command += ["-chardev", f"file,id=console,path={self._folder / 'console.log'}", "-serial", "chardev:console"]
        command += ["-chardev", f"socket,id=port,fd={port}", "-device", "virtio-serial-pci"]
        command += ["-device", "virtserialport,chardev=port,nr=1"]
        # The bus of the port belongs to no node.
        for node, device in DEVICES.items():
            command += ["-device", f"pxb,id=bus{node},bus=pci.0,bus_nr={32 * (node + 1)},numa_node={node}"]
            command += ["-device", f"{device},bus=bus{node},addr=1"]
        # Pages stay where the tests put them, unless a test turns balancing on.
        options = "console=ttyS0 panic=-1 mitigations=off nokaslr tsc=reliable numa_balancing=disable"
        return [*command, "-kernel", str(kernel), "-initrd", str(image), "-append", options]

    def console(self) -> str:
        """Return the end of the guest's console output: at least the kernel's last report of a lockup."""
        try:
            lines = (self._folder / "console.log").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        begin = max((number for number, line in enumerate(lines) if "soft lockup" in line), default=len(lines))
        return "\n".join(lines[min(begin, max(len(lines) - 40, 0)) :])

    def give_up(self) -> None:
        """End the guest."""
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None

    def _line(self, patience: float) -> bytes:
        """Receive a line."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._received:
            self._receive(deadline)
        line, self._received = self._received.split(b"\n", 1)
        return line

    def _bytes(self, length: int, patience: float) -> bytes:
        """Receive this number of bytes."""
        deadline = time.monotonic() + patience
        while len(self._received) < length:
            self._receive(deadline)
        received, self._received = self._received[:length], self._received[length:]
        return received

    def _receive(self, deadline: float) -> None:
        assert self._port
        self._port.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            received = self._port.recv(1 << 16)
        except TimeoutError:
            raise GuestError("no more data within the time limit") from None
        if not received:
            raise GuestError("the guest has ended")
        self._received += received

    def build(self) -> Path:
        """Make the initial file system and return its file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        tree = self._folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        for folder in ("bin", "dev", "proc", "sys", "run", "tmp", "lib/modules", "pinfold", "programs"):
            (tree / folder).mkdir(parents=True)
        busybox = shutil.which("busybox")
        assert busybox
        shutil.copy(busybox, tree / "bin" / "busybox")
        shutil.copy(ROOT / "tests" / "guest" / "init", tree / "init")
        loaded = [module for module in MODULES if self._copy_module(module, tree / "lib" / "modules")]
        (tree / "lib/modules/order").write_text("".join(f"{Path(module).name}\n" for module in loaded))

        # The binary contains the agent; the agent's libraries are found by its own file.
        ours = [self._place(self._binary, tree / "pinfold/bin"), self._place(self._agent, tree / "pinfold/agent")]
        # The debugging information is about fifty megabytes of memory.
        subprocess.run(["strip", "--strip-debug", ours[0]], check=True)
        for workload in self._workloads.iterdir():
            if workload.suffix == "" and not workload.name.startswith("."):
                ours.append(self._place(workload, tree / "pinfold/workloads"))
        ours += self._openmp_programs(tree / "programs")
        for library in {library for binary in ours for library in libraries(binary)}:
            self._place(library, tree / library.parent.relative_to("/"))
        sources = [ROOT / "tests" / "programs" / f"{name}.c" for name in SHARED_PROGRAMS]
        sources += sorted((ROOT / "tests" / "guest" / "programs").glob("*.c"))
        for source in sources:
            self._compile("gcc", source, tree / "programs" / source.stem, "-pthread", "-static")

        image = self._folder / "initramfs.cpio"
        names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
        with image.open("wb") as archive:
            command = ["busybox", "cpio", "-o", "-H", "newc"]
            subprocess.run(
                command, cwd=tree, input=names.encode(), stdout=archive, stderr=subprocess.DEVNULL, check=True
            )
        return image

    def _copy_module(self, module: str, folder: Path) -> bool:
        """Copy a module of the kernel; return False for one that the kernel has built in."""
        for file in self.kernel.glob(f"**/kernel/{module}*"):
            if file.suffix == ".xz":
                (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
            else:
                shutil.copy(file, folder)
            return True
        assert self.kernel != KERNEL, module
        return False

    def _openmp_programs(self, folder: Path) -> list[Path]:
        """Build the OpenMP programs with each compiler that is here."""
        programs = []
        for compiler in filter(shutil.which, OPENMP_COMPILERS):
            for source in sorted((ROOT / "tests" / "guest" / "programs" / "openmp").glob("*.c")):
                program = folder / f"{source.stem}-{compiler}"
                self._compile(compiler, source, program, "-fopenmp")
                programs.append(program)
        return programs

    @staticmethod
    def _compile(compiler: str, source: Path, program: Path, *flags: str) -> None:
        command = [compiler, "-O1", "-g", "-Wall", "-Wextra", *flags, "-o", str(program), str(source)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr

    @staticmethod
    def _place(file: Path, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(file, folder))


class SchedulerGuest(Guest):
    """The machine with a kernel that can load a scheduler (sched_ext).

    Such a kernel changes its own code while it runs. Where CPUs are emulated side by side, another CPU may find half of
    the change, and the kernel panics. So one CPU is emulated after the other, and the time of the machine is counted in
    instructions (8 ns each): otherwise each CPU would have the host's CPU for a tenth of a second in turn, and others
    would seem to be late by that.
    """

    name = "scheduler"
    kernel = SCHEDULER_KERNEL
    side_by_side = False
