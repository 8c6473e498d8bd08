"""Faults at a system call: which there are, and how one is chosen and applied."""
import collections
import errno
import fcntl
import os
import socket
import struct

# What Linux answers these calls with if a disk, a limit or a permission is in the way.
_LOOK = 'EIO EACCES ELOOP ENAMETOOLONG ENOMEM'
_CHANGE = 'EIO ENOSPC EDQUOT EACCES EROFS'
_NO_DESCRIPTOR = 'EMFILE ENFILE ENOMEM'
_WRITE = 'EIO ENOSPC EDQUOT EFBIG EINTR'
_ERRORS = {
    'openat': 'EIO ENOSPC EACCES EMFILE ENFILE EINTR ENOMEM EROFS', 'stat': _LOOK, 'newfstatat': _LOOK, 'statx': _LOOK,
    'access': _LOOK, 'readlink': _LOOK, 'statfs': 'EIO', 'getcwd': 'EACCES ENOENT',
    'read': 'EIO EINTR', 'pread64': 'EIO EINTR', 'getdents64': 'EIO', 'write': _WRITE, 'pwrite64': _WRITE,
    'fsync': 'EIO ENOSPC EINTR', 'ftruncate': 'EIO EFBIG EINTR', 'fallocate': 'EIO ENOSPC EOPNOTSUPP EINTR',
    'close': 'EIO ENOSPC EINTR', 'rename': _CHANGE, 'mkdir': _CHANGE + ' EMLINK', 'unlink': 'EIO EACCES EBUSY EROFS',
    'unlinkat': 'EIO EACCES EBUSY EROFS', 'rmdir': 'EIO EACCES EBUSY', 'flock': 'EIO EINTR ENOLCK', 'mmap': 'ENOMEM',
    'clone': 'EAGAIN ENOMEM', 'clone3': 'EAGAIN ENOMEM', 'fork': 'EAGAIN', 'execve': 'EACCES EIO ENOMEM',
    'pipe2': _NO_DESCRIPTOR, 'socketpair': _NO_DESCRIPTOR, 'socket': _NO_DESCRIPTOR, 'eventfd2': _NO_DESCRIPTOR,
    'epoll_create1': _NO_DESCRIPTOR, 'timerfd_create': _NO_DESCRIPTOR, 'signalfd4': _NO_DESCRIPTOR,
    'memfd_create': _NO_DESCRIPTOR, 'bind': 'EADDRINUSE EACCES', 'epoll_wait': 'EINTR', 'poll': 'EINTR', 'wait4': 'EINTR',
    'sendto': 'EINTR ECONNRESET', 'recvfrom': 'EINTR ECONNRESET'}
_SHORT = ('read', 'write', 'pread64', 'pwrite64')
_CHANGING = ('openat', 'write', 'pwrite64', 'fsync', 'ftruncate', 'fallocate', 'close', 'rename', 'mkdir', 'unlink', 'rmdir')
_PASSING = (errno.EINTR, errno.EAGAIN)  # they end if the call is repeated


def _can_befall(kind, error, call):
    if kind in ('kill', 'stop', 'cut'):
        return True
    if call.name not in _ERRORS or call.from_loader:  # what the loader says of a library, it says before hgtrain runs
        return False
    if error == errno.ECONNRESET and not call.process.role.startswith('rank'):  # its peers are alive and on this machine
        return False
    if error == errno.EINTR and call.name in ('sendto', 'recvfrom') and call.arguments[3] & socket.MSG_DONTWAIT:
        return False  # only a call that waits is interrupted
    if error == errno.EINTR and call.name == 'flock' and call.arguments[1] & fcntl.LOCK_NB:
        return False
    if kind == 'half' and call.path.startswith(('/proc/', '/sys/')):  # it would be of the supervisor, which makes it
        return False
    # A pipe or a socket fails in other ways; an injected error leaves what it should close open, and the peer waiting.
    return (call.name not in (*_SHORT, 'close') or call.is_of_a_file or
            (kind == 'error' and error == errno.EINTR and call.name != 'close'))


class Recorder:
    """Notes which faults could befall an undisturbed run, and where."""

    def __init__(self):
        self.places = collections.defaultdict(list)  # (kind, role, call) -> its numbers

    def decide(self, call):
        for kind in ('error', 'half', 'kill', 'stop'):
            if _can_befall(kind, errno.EIO, call) and (kind != 'half' or call.name in _SHORT):
                self.places[kind, call.process.role, call.name].append(call.number_of_kind)


class Fault:
    """At the n-th call of a name by a process with a role: an error, half of the bytes, a signal, or a power cut."""

    def __init__(self, kind, role, name, number, error=0, lasts=False, killed=(), disk=None):
        self.kind, self.role, self.name, self.number = kind, role, name, number
        self.error, self.lasts, self.killed, self.disk = error, lasts, killed, disk
        self.hit = None  # the call, as text, once it happened
        self.is_of_output = False

    def __str__(self):
        what = {'error': errno.errorcode.get(self.error), 'half': 'half of the bytes',
                'kill': f'SIGKILL of {", ".join(self.killed)}', 'stop': 'SIGTERM of the launcher',
                'cut': 'power cut'}[self.kind]
        return f'{what}{" from then on" if self.lasts else ""} at {self.hit or f"{self.role}, {self.name} number {self.number} (never made)"}'

    def attach(self, supervisor):
        self.supervisor = supervisor

    def decide(self, call):
        if (call.process.role, call.name) != (self.role, self.name) or not _can_befall(self.kind, self.error, call):
            return None
        if call.number_of_kind < self.number or (self.hit and not self.lasts):
            return None
        self.hit = self.hit or str(call)
        self.is_of_output |= call.name == 'write' and call.path.endswith(('/stderr', '/stdout'))
        if self.kind == 'error':
            return -self.error
        if self.kind == 'half':
            return call.make_half()
        if self.kind == 'cut':
            shut_down(self.disk)
        if self.kind in ('kill', 'cut'):
            self.supervisor.kill(self.killed)
            return -errno.EINTR if self.role in self.killed else None  # if let pass, it would be made even so
        self.supervisor.stop()
        return None


def shut_down(disk):
    """The file system mounted at `disk` writes nothing more, not even its journal."""
    fd = os.open(disk, os.O_RDONLY)
    fcntl.ioctl(fd, 0x8004587D, struct.pack('I', 2))  # FS_IOC_SHUTDOWN, without flushing the log
    os.close(fd)


def choose_cut(drawn, places):
    """A power cut at one of these places, rank 0's for the most part: it writes the checkpoints."""
    role = drawn.choice(('rank 0', 'rank 0', 'launcher'))
    name = drawn.choice(sorted({name for k, r, name in places if (k, r) == ('kill', role)} & set(_CHANGING)))
    return Fault('cut', role, name, drawn.choice(places['kill', role, name]), killed=roles_of(places))


def choose(drawn, places):
    """A fault that can befall a run with these places: first its kind, then who, which call, and which of these calls."""
    kind = drawn.choice(('error', 'error', 'error', 'half', 'kill', 'kill', 'stop'))
    role = drawn.choice(sorted({role for k, role, _ in places if k == kind}))
    name = drawn.choice(sorted({name for k, r, name in places if (k, r) == (kind, role)}))
    number = drawn.choice(places[kind, role, name])
    error = getattr(errno, drawn.choice(_ERRORS[name].split())) if kind == 'error' else 0
    lasts = kind in ('error', 'half') and drawn.random() < 0.3 and error not in _PASSING
    killed = drawn.choice(([role], ['launcher'], sorted({'launcher', role}), roles_of(places)))
    return Fault(kind, role, name, number, error, lasts, killed)


def every(places):
    """Each error, half transfer and kill at each of these places."""
    for (kind, role, name), numbers in sorted(places.items()):
        for number in numbers:
            if kind == 'error':
                yield from (Fault(kind, role, name, number, getattr(errno, error)) for error in _ERRORS[name].split())
            elif kind == 'half':
                yield Fault(kind, role, name, number)
            elif kind == 'kill':
                yield Fault(kind, role, name, number, killed=[role])
                yield Fault(kind, role, name, number, killed=roles_of(places))


def roles_of(places):
    return sorted({role for _, role, _ in places})
