"""Runs a program with all that it starts under a supervisor that sees each of their system calls before it is made and may
let it pass, answer it with an error, make a part of it, or kill.

It rests on seccomp's user notification: every call is seen, whoever makes it (libc's stdio, libstdc++, a library of its own),
in every process and thread below, at some 20 microseconds each. No ptrace, which containers may forbid, and no root."""
import array
import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import functools
import os
import pathlib
import platform
import select
import signal
import socket
import stat
import struct
import tempfile
import time

# x86-64. What only computes, waits for a thread or reads a clock is left out.
NUMBERS = {
    'read': 0, 'write': 1, 'open': 2, 'close': 3, 'stat': 4, 'fstat': 5, 'lstat': 6, 'poll': 7, 'lseek': 8, 'mmap': 9,
    'pread64': 17, 'pwrite64': 18, 'readv': 19, 'writev': 20, 'access': 21, 'pipe': 22, 'socket': 41, 'connect': 42,
    'accept': 43, 'sendto': 44, 'recvfrom': 45, 'recvmsg': 47, 'bind': 49, 'listen': 50, 'socketpair': 53, 'clone': 56,
    'fork': 57, 'vfork': 58, 'execve': 59, 'wait4': 61, 'fcntl': 72, 'flock': 73, 'fsync': 74, 'fdatasync': 75,
    'truncate': 76, 'ftruncate': 77, 'getcwd': 79, 'rename': 82, 'mkdir': 83, 'rmdir': 84, 'unlink': 87, 'readlink': 89,
    'statfs': 137, 'fstatfs': 138, 'getdents64': 217, 'epoll_wait': 232, 'waitid': 247, 'openat': 257, 'mkdirat': 258,
    'newfstatat': 262, 'unlinkat': 263, 'renameat': 264, 'ppoll': 271, 'epoll_pwait': 281, 'timerfd_create': 283,
    'fallocate': 285, 'accept4': 288, 'signalfd4': 289, 'eventfd2': 290, 'epoll_create1': 291, 'pipe2': 293,
    'renameat2': 316, 'memfd_create': 319, 'copy_file_range': 326, 'statx': 332, 'pidfd_open': 434, 'clone3': 435}
NAMES = {number: name for name, number in NUMBERS.items()}
PATH_ARGUMENT = {'open': 0, 'stat': 0, 'lstat': 0, 'access': 0, 'execve': 0, 'truncate': 0, 'rename': 0, 'mkdir': 0,
                 'rmdir': 0, 'unlink': 0, 'readlink': 0, 'statfs': 0, 'openat': 1, 'mkdirat': 1, 'newfstatat': 1,
                 'unlinkat': 1, 'renameat': 1, 'renameat2': 1, 'statx': 1}
FD_CALLS = {'read', 'write', 'close', 'fstat', 'lseek', 'pread64', 'pwrite64', 'readv', 'writev', 'sendto', 'recvfrom',
            'recvmsg', 'fcntl', 'flock', 'fsync', 'fdatasync', 'ftruncate', 'fstatfs', 'getdents64', 'fallocate'}

_SECCOMP, _PIDFD_GETFD = 317, 438
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_libc = ctypes.CDLL(None, use_errno=True)


class Hang(Exception):
    """The program did not end."""


def _filter():
    """The BPF program: the calls of NUMBERS are notified, all others allowed."""
    def instruction(code, jump_true, jump_false, value):
        return struct.pack('HBBI', code, jump_true, jump_false, value)
    numbers = sorted(NUMBERS.values())
    tests = b''.join(instruction(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers))
    return instruction(0x20, 0, 0, 0) + tests + instruction(6, 0, 0, 0x7fff0000) + instruction(6, 0, 0, 0x7fc00000)


@functools.cache
def is_available():
    """Whether this kernel and container notify of system calls."""
    if platform.machine() != 'x86_64':
        return False
    try:
        return supervise(['true'], tempfile.gettempdir()).status == 0
    except OSError:
        return False


def _install():
    """In the child: puts itself under the filter; the listener's descriptor."""
    code = _filter()
    memory = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(memory)), 16)
    _libc.prctl(38, 1, 0, 0, 0)  # no new privileges: what seccomp asks of who is not root
    # A new listener; a call that was received is interrupted by what kills alone, so it is counted once.
    for flags in 8 | 32, 8:
        listener = _libc.syscall(_SECCOMP, 1, flags, program)
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), 'no notification of system calls here')


@dataclasses.dataclass
class Call:
    """A system call that is about to be made."""
    process: 'Process'
    number_of_kind: int  # of this process's calls of this name, from 1
    name: str
    arguments: tuple
    from_loader: bool  # by the dynamic loader, for a library

    @functools.cached_property
    def path(self):
        """Of the file it is about; '' if there is none."""
        try:
            if self.name in FD_CALLS:
                return os.readlink(f'/proc/{self.process.pid}/fd/{self.arguments[0] & 0xffffffff}')
            if self.name in PATH_ARGUMENT:
                address = self.arguments[PATH_ARGUMENT[self.name]]
                path = self._memory(address, -address % 4096)  # what follows the page may not be there
                return (path if b'\0' in path else path + self._memory(address + len(path), 4096)).split(b'\0')[0].decode()
        except OSError:
            pass
        return ''

    @property
    def is_of_a_file(self):
        """Whether its descriptor is of a regular file."""
        try:
            return stat.S_ISREG(os.stat(f'/proc/{self.process.pid}/fd/{self.arguments[0] & 0xffffffff}').st_mode)
        except OSError:
            return False

    def make_half(self):
        """Makes a read or write of half as many bytes in the process's place; the bytes done."""
        _, address, size, offset = self.arguments[:4]
        size = max(1, size // 2)
        pidfd = os.pidfd_open(self.process.pid)
        fd = _libc.syscall(_PIDFD_GETFD, pidfd, ctypes.c_int(self.arguments[0]), 0)
        os.close(pidfd)
        if fd < 0:
            raise OSError(ctypes.get_errno(), 'pidfd_getfd')
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        if flags & os.O_DIRECT:  # which half of the bytes, at any address, would not suit
            direct, fd = fd, os.open(f'/proc/self/fd/{fd}', flags & os.O_ACCMODE)
            os.close(direct)
        try:
            if self.name in ('write', 'pwrite64'):
                data = self._memory(address, size)
                return os.write(fd, data) if self.name == 'write' else os.pwrite(fd, data, offset)
            data = os.read(fd, size) if self.name == 'read' else os.pread(fd, size, offset)
            with open(f'/proc/{self.process.pid}/mem', 'r+b', buffering=0) as memory:
                memory.seek(address)
                memory.write(data)
            return len(data)
        finally:
            os.close(fd)

    def _memory(self, address, size):
        with open(f'/proc/{self.process.pid}/mem', 'rb', buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def __str__(self):
        return f'{self.process.role}, {self.name} number {self.number_of_kind}' + (f' ({self.path})' if self.path else '')


@dataclasses.dataclass
class Process:
    pid: int
    role: str  # 'launcher', 'rank 1', 'child 0' (of the launcher: a guard or the keeper), 'fork of child 0'
    loader: tuple  # addresses of the dynamic loader
    counts: dict


@dataclasses.dataclass
class Outcome:
    status: int  # as subprocess has it: -9 if SIGKILL ended it
    out: str
    err: str
    left_over: list  # processes that outlived the command by more than some seconds (killed by now), busy control groups
    shared_memory: list  # files that are left in /dev/shm


class Supervisor:
    def __init__(self, listener, main_pid, decide):
        self.listener, self.main_pid, self.decide = listener, main_pid, decide
        self.processes, self.threads, self.shared_memory, self.groups = {}, {}, set(), set()
        self.children = 0

    def answer_next(self):
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, notice)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.EINTR):
                return  # who called is dead
            raise
        number_of_notice, tid, _, number, _, instruction, *arguments = struct.unpack('QIIiIQ6Q', notice)
        value, error, flags = 0, 0, _CONTINUE
        try:
            name = NAMES[number]
            if not self.processes and name == 'execve':
                raise ProcessLookupError  # the command is only being started
            process = self.process_of(tid)
            process.counts[name] = process.counts.get(name, 0) + 1
            call = Call(process, process.counts[name], name, tuple(arguments),
                        process.loader[0] <= instruction < process.loader[1])
            if name == 'openat' and call.path.startswith('/dev/shm/'):
                self.shared_memory.add(call.path)
            if name == 'mkdir' and call.path.startswith('/sys/fs/cgroup/'):
                self.groups.add(call.path)
            answer = self.decide(call)
            if name == 'execve' and answer is None:
                self.threads.pop(tid, None)
            if answer is not None:
                flags, value, error = 0, max(answer, 0), min(answer, 0)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it was killed meanwhile
        try:
            fcntl.ioctl(self.listener, _SEND, struct.pack('QqiI', number_of_notice, value, error, flags))
        except OSError as e:
            if e.errno != errno.ENOENT:
                raise

    def process_of(self, tid):
        if tid not in self.threads:
            status = pathlib.Path(f'/proc/{tid}/status').read_text()
            pid = int(status.split('Tgid:')[1].split()[0])
            if pid != tid and pid in self.threads:
                self.threads[tid] = self.threads[pid]
            else:
                self.threads[tid] = self.identify(pid, status)
        return self.threads[tid]

    def identify(self, pid, status):
        """A process that is new or has just become another program."""
        before = self.processes.get(pid)
        program = os.readlink(f'/proc/{pid}/exe').rsplit('/', 1)[-1]
        parent = self.processes.get(int(status.split('PPid:')[1].split()[0]))
        if program == 'hgtrain-worker':
            environment = pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
            rank = [e[5:].decode() for e in environment if e.startswith(b'RANK=')]
            role = f'rank {rank[0]}' if rank else 'probe'
        elif pid == self.main_pid:
            role = 'launcher'
        elif before:
            role = before.role
        elif parent and parent.role != 'launcher':
            role = f'fork of {parent.role}'
        else:
            role, self.children = f'child {self.children}', self.children + 1
        loader = (0, 0)
        for line in pathlib.Path(f'/proc/{pid}/maps').read_text().splitlines():
            if '/ld-linux' in line:
                begin, end = (int(x, 16) for x in line.split()[0].split('-'))
                loader = (loader[0] or begin, end)
        self.processes[pid] = Process(pid, role, loader, {})
        return self.processes[pid]

    def living(self):
        """The processes that still run."""
        return [process for pid, process in self.processes.items() if self.is_living(pid)]

    @staticmethod
    def is_living(pid):
        """Whether it runs, and is one of ours: the number may be another's by now, which has no filter."""
        try:
            status = pathlib.Path(f'/proc/{pid}/status').read_text()
        except OSError:
            return False
        return status.split('State:')[1].split()[0] not in 'ZX' and status.split('Seccomp:')[1].split()[0] == '2'

    def remove_groups(self):
        """Removes control groups that are left, which they are if all that could was killed; those that stay in use."""
        deadline = time.monotonic() + 10  # what was killed leaves its group a little after its filter
        groups = sorted(self.groups)
        while groups and time.monotonic() < deadline:
            for path in groups:
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            groups = [path for path in groups if os.path.exists(path)]
            time.sleep(0.01 if groups else 0)
        return groups

    def stop(self):
        if self.is_living(self.main_pid):
            os.kill(self.main_pid, signal.SIGTERM)

    def kill(self, roles):
        for process in self.living():
            if process.role in roles:
                os.kill(process.pid, signal.SIGKILL)


def supervise(command, folder, decide=lambda call: None, on_start=lambda supervisor: None, limit_s=120, leaving_s=20):
    """Runs the command in the folder until nothing of it lives; its output is kept there. decide(call) gives None to let a
    call pass, -errno to fail it, or the result of a call that it made itself. Raises Hang if the command takes longer than
    limit_s; what lives leaving_s after the command ended is left over."""
    _libc.prctl(36, 1, 0, 0, 0)  # orphans come here
    folder = pathlib.Path(folder)
    ours, childs = socket.socketpair()
    with (folder / 'stdout').open('w') as out, (folder / 'stderr').open('w') as err:
        pid = os.fork()
        if pid == 0:
            try:
                os.chdir(folder)
                nowhere = os.open('/dev/null', os.O_RDONLY)
                for fd, target in (nowhere, 0), (out.fileno(), 1), (err.fileno(), 2):
                    os.dup2(fd, target)
                listener = _install()
                childs.sendmsg([b'.'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [listener]))])
                os.execvp(command[0], list(map(str, command)))
            except OSError as e:
                childs.sendmsg([e.errno.to_bytes(1, 'little')])
            finally:
                os._exit(127)
    childs.close()
    with ours:
        message, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        os.waitpid(pid, 0)
        raise OSError(message[0], os.strerror(message[0]))
    supervisor = Supervisor(fds[0], pid, decide)
    on_start(supervisor)
    try:
        status, left_over = _serve(supervisor, limit_s, leaving_s)
    finally:
        for process in supervisor.living():  # only if this was interrupted
            os.kill(process.pid, signal.SIGKILL)
        os.close(fds[0])
    return Outcome(status, (folder / 'stdout').read_text(errors='replace'), (folder / 'stderr').read_text(errors='replace'),
                   left_over + supervisor.remove_groups(), [p for p in sorted(supervisor.shared_memory) if os.path.isfile(p)])


def _serve(supervisor, limit_s, leaving_s):
    """Answers until the last process is gone; the command's status, and which processes outlived it."""
    poll = select.poll()
    poll.register(supervisor.listener, select.POLLIN)
    deadline = time.monotonic() + limit_s
    status, left_over, hangs = None, [], False
    while True:
        events = poll.poll(100 if status is None else 10)
        event = events[0][1] if events else 0
        if event & select.POLLIN:
            supervisor.answer_next()
        if not event & select.POLLIN:
            ended = _reap(supervisor.main_pid)
            if ended is not None:
                status, deadline = ended, time.monotonic() + leaving_s
        if event & select.POLLHUP and not event & select.POLLIN and status is not None:
            break
        if time.monotonic() > deadline:
            living = supervisor.living()
            hangs, left_over = hangs or status is None, left_over + [f'{p.role} (pid {p.pid})' for p in living]
            for process in living:
                os.kill(process.pid, signal.SIGKILL)
            deadline = time.monotonic() + leaving_s
    if hangs:
        raise Hang(', '.join(left_over))
    return status, left_over


def _reap(main_pid):
    """Takes leave of the children that ended; the status of the main one if it did."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == main_pid:
            status = os.waitstatus_to_exitcode(ended)
