"""The trials of `scripts/torture --hosts`: jobs on two hosts (tests/e2e/hosts.py) of which a process is killed or stopped, or which lose
their network, at a random moment."""
import atexit
import os
import pathlib
import re
import signal
import subprocess
import time

import hosts
import trials
from trials import Failed, require

LEASE = 15
STEPS = 1200
SAVE_INTERVAL = 100
TARGETS = ('rank', 'guard', 'agent', 'ssh', 'sshd', 'launcher')
BUSY = 4  # seconds that a machine with much to do may take for what takes milliseconds


class Fault:
    """`action` on `target` of the host at `moment`, a part of the time that the job takes undisturbed:
    kill; stop; hold: stop and, after `hold` seconds, continue; cut: no network; blink: none for `hold` seconds."""

    def __init__(self, action, target, host, rank, moment, hold=0):
        self.action, self.target, self.host, self.rank, self.moment, self.hold = action, target, host, rank, moment, hold
        self.pid = None
        self.at = None  # when it happened; None: never, because the job had ended

    def __str__(self):
        what = f'{self.action} {self.target}' + (f' {self.rank}' if self.target in ('rank', 'guard') else '' if self.target == 'launcher' else f' of {self.host}')
        return f'{what} at {self.moment:.3f}' + (f' for {self.hold} s' if self.hold else '') + ('' if self.at else ' (the job had ended)')

    @property
    def is_silence(self):
        """Whether only the lease shows the fault."""
        return self.action in ('stop', 'cut') and self.target in ('agent', 'ssh', 'sshd', 'link')


def choose(drawn):
    rank = drawn.randrange(4)
    moment = drawn.uniform(0, 1)
    action = drawn.choice(('kill',) * 5 + ('stop', 'hold', 'cut', 'blink'))
    target = 'link' if action in ('cut', 'blink') else drawn.choice(TARGETS)
    # TCP sends again after pauses that double: after 9 s without a network, 15 s may pass before anything comes.
    holds = {'hold': (1, 4, 9), 'blink': (1, 4, 6)}.get(action, (0,))
    return Fault(action, target, 'ab'[rank // 2], rank, moment, drawn.choice(holds))


class Place:
    """The two hosts, and the processes on them."""

    def __init__(self, folder):
        self.hosts = hosts.Hosts(folder, 'ab')
        atexit.register(self.hosts.down)
        self.first = {name: self.hosts.first_process(name) for name in 'ab'}
        self.spaces = {name: self.space_of(pid) for name, pid in self.first.items()}

    @staticmethod
    def space_of(pid):
        try:
            return os.readlink(f'/proc/{pid}/ns/pid')
        except OSError:
            return None

    def find(self, fault, launcher):
        """The process that the fault befalls, or None if there is none yet."""
        if fault.target == 'launcher':
            return launcher
        if fault.target == 'ssh':
            return next((pid for pid, line in self.clients() if f'\0{fault.host}\0'.encode() in line), None)
        for pid, line, environment in hosts.command_lines():
            if hosts.MARK.encode() not in environment or self.space_of(pid) != self.spaces[fault.host]:
                continue
            if fault.target in ('agent', 'sshd') and line.endswith(b'\0agent\0'):
                return pid if fault.target == 'agent' else parent_of(pid)
            is_guard = line.startswith(f'guard-of-{fault.rank}'.encode())
            if fault.target == 'guard' and is_guard:
                return pid
            if fault.target == 'rank' and is_guard:
                return next(iter(children_of(pid)), None)
        return None

    def clients(self):
        """The processes of ssh."""
        own = str(self.hosts.folder / 'ssh_config').encode()
        return [(pid, line) for pid, line, _ in hosts.command_lines() if own in line and b'ssh\0' in line]

    def cut(self, host):
        hosts.sh('ip', 'link', 'set', f'{self.hosts.bridge}{host}', 'down')

    def heal(self, host):
        hosts.sh('ip', 'link', 'set', f'{self.hosts.bridge}{host}', 'up')
        self.hosts.wait_for_sshd(host)

    def left(self, but=None):
        """What still runs on a host, or to reach one."""
        found = self.hosts.left() + self.clients()
        return [f'{pid} {line.decode(errors="replace").replace(chr(0), " ")[:80]}' for pid, line in found if pid != but]

    def shared_memory(self):
        return [f'{name}: {file.name}' for name, pid in self.first.items() for file in pathlib.Path(f'/proc/{pid}/root/dev/shm').iterdir()]


def parent_of(pid):
    try:
        return int(pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[1])
    except OSError:
        return None


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
    except OSError:
        return []


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


class Outcome:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err = status, out, err
        self.seconds = seconds  # from the fault to the end


class Work:
    """A job on both hosts, two ranks each."""
    restarts = 0

    def __init__(self, hgtrain, place):
        self.hgtrain, self.place = hgtrain, place

    def run(self, folder, arguments, fault=None):
        began = time.monotonic()
        env = {**os.environ, 'PATH': f'{self.place.hosts.folder}/bin:' + os.environ['PATH']}
        with (folder / 'stdout').open('w') as out, (folder / 'stderr').open('w') as err:
            process = subprocess.Popen([self.hgtrain, *arguments], cwd=folder, stdout=out, stderr=err, env=env)
        try:
            if fault:
                self.inflict(fault, process, began)
                self.check_hosts_give_up(fault, process)
            try:
                process.wait(timeout=300)
            except subprocess.TimeoutExpired:
                raise Failed(f'it hangs; left: {self.place.left()}') from None
            ended = time.monotonic()
            if fault and not fault.at and '--resume' not in arguments:
                self.seconds = min(self.seconds, ended - began)  # the machine had more to do when this was measured
            self.check_nothing_is_left(fault)
        finally:
            process.kill()
            process.wait()
            if fault:
                self.undo(fault)
        outcome = Outcome(process.returncode, (folder / 'stdout').read_text(), (folder / 'stderr').read_text(),
                          ended - fault.at if fault and fault.at else 0)
        internal = trials.INTERNAL.search(outcome.err)
        require(not internal, f'it says "{internal and internal[0]}"')
        return outcome

    def inflict(self, fault, process, began):
        while time.monotonic() < began + fault.moment * self.seconds and process.poll() is None:
            time.sleep(0.002)
        while process.poll() is None:
            if fault.target == 'link':
                self.place.cut(fault.host)
            else:
                fault.pid = self.place.find(fault, process.pid)
                if not fault.pid or not send(fault.pid, signal.SIGKILL if fault.action == 'kill' else signal.SIGSTOP):
                    continue
            fault.at = time.monotonic()
            break
        if fault.at and fault.action in ('hold', 'blink'):
            time.sleep(fault.hold)
            self.undo(fault)

    def check_hosts_give_up(self, fault, process):
        """A launcher that is stopped learns nothing until it is continued: the hosts end what they run nonetheless."""
        if not fault.at or fault.target != 'launcher' or fault.action != 'stop':
            return
        self.wait_until_gone(LEASE + 10, lambda: [line for line in self.place.left() if 'ssh_config' not in line])
        send(process.pid, signal.SIGCONT)

    def undo(self, fault):
        if fault.at and fault.target == 'link':
            self.place.heal(fault.host)
        elif fault.pid and fault.action in ('stop', 'hold'):
            send(fault.pid, signal.SIGCONT)

    def check_nothing_is_left(self, fault):
        """Except for the process that is stopped itself; once it continues, it ends, too."""
        stopped = fault.pid if fault and fault.action == 'stop' else None
        self.wait_until_gone(10 + BUSY, lambda: self.place.left(but=stopped))
        if stopped:
            self.undo(fault)
            self.wait_until_gone(10 + BUSY, self.place.left)
        require(not self.place.shared_memory(), f'left in memory: {self.place.shared_memory()}')

    @staticmethod
    def wait_until_gone(seconds, left):
        deadline = time.monotonic() + seconds
        while found := left():
            if time.monotonic() > deadline:
                raise Failed(f'left after {seconds} s: {found}')
            time.sleep(0.05)

    def judge(self, fault, outcome):
        """The exit code, who is named, and how long it took."""
        status = outcome.status
        if not fault.at or self.is_complete(outcome):
            require(status == 0 or fault.target == 'launcher', f'exit status {status} of a job that was complete')
            return
        if fault.target == 'launcher' and fault.action == 'kill':
            return require(status == -signal.SIGKILL, f'exit status {status}')
        if status == 3 and fault.target in ('link', 'agent', 'ssh', 'sshd') and fault.action != 'hold':
            # Before the start there is nothing to restart. ssh, which sends its first packets again after 1 and 3 s, gives up after 4 s.
            return require(f'host {fault.host} cannot be used' in outcome.err, 'exit status 3')
        if self.goes_on_after(fault):
            return require(status == 0 and self.is_complete(outcome), f'exit status {status}, though it should have gone on to its end')
        expected, named, limit = self.end_after(fault)
        require(status in expected, f'exit status {status} in place of {expected}')
        require(re.search(named, outcome.err), f'nothing says "{named}"')
        require(outcome.seconds < limit, f'it took {outcome.seconds:.1f} s to end, more than {limit}')

    def goes_on_after(self, fault):
        is_own_restart = self.restarts > 0 and (fault.action == 'kill' or fault.target in ('agent', 'ssh', 'sshd', 'rank'))
        return fault.action in ('hold', 'blink') or (fault.target == 'guard' and fault.action == 'stop') or is_own_restart

    def end_after(self, fault):
        if fault.target in ('rank', 'guard'):
            return self.end_of_rank(fault)
        soon = LEASE + 2 if fault.is_silence or fault.target == 'launcher' else 1
        if fault.target == 'launcher':
            return {3, 6}, 'host [ab] (is lost|cannot be used)', 2 * LEASE + 10 + BUSY
        # A host that has not answered yet cannot be used (3): ssh gives it 4 s to answer, and hgtrain 30 s, in at most two calls. A host that
        # is called again after it was lost is given the same, after two leases.
        again = 2 * LEASE + 35 if self.restarts else 35
        return {3, 6}, f'host {fault.host} (is lost|cannot be used)', max(soon, again if fault.is_silence else 0) + self.end_limit + BUSY


class Programs(Work):
    """Any program, whose ranks end by printing `done`."""
    end_limit = 1  # after the job has been found to have failed: --grace
    done = 'done'
    seconds = 4

    def __init__(self, hgtrain, place, name, *program, flags=()):
        super().__init__(hgtrain, place)
        self.name = name
        self.arguments = ['launch', '--hosts', 'a:2,b:2', '--grace', '1', *flags, '--', *program]

    def is_complete(self, outcome):
        """All ranks have printed their last line, which may be shown once for several: "[ranks 0-2] done"."""
        ranks = []
        for first, last in re.findall(rf'(\d+)(?:-(\d+))?(?=[\d,-]*\] {self.done}$)', outcome.out, re.M):
            ranks += range(int(first), int(last or first) + 1)
        return set(ranks) == {0, 1, 2, 3}

    def draw(self, drawn):
        return [choose(drawn)]

    def end_of_rank(self, fault):
        if fault.action == 'stop':
            return self.end_of_stopped_rank(fault)
        what = 'was killed by SIGKILL' if fault.target == 'rank' else 'was killed with its guard'
        return {137}, rf'rank {fault.rank} of 4 \(.* on {fault.host}\) {what}', 1 + self.end_limit + BUSY

    def end_of_stopped_rank(self, fault):
        """Nobody can know whether that is meant, and the other ranks do not wait for it."""
        return {0}, f'rank {fault.rank} has been stopped', 1000

    def check_hosts_give_up(self, fault, process):
        super().check_hosts_give_up(fault, process)
        if fault.at and fault.target == 'rank' and fault.action == 'stop':
            self.after_stop_of_rank(fault)

    def after_stop_of_rank(self, fault):
        time.sleep(5)
        self.undo(fault)

    def trial(self, folder, planned, events):
        folder.mkdir()
        for fault in planned:
            outcome = self.run(folder, self.arguments, fault)
            events.append(f'{fault}: {outcome.status} after {outcome.seconds:.1f} s')
            self.judge(fault, outcome)


SLEEPING = 'i=0; while [ $i -lt 30 ]; do i=$((i+1)); sleep 0.1; done; echo done'


class PyTorch(Programs):
    """ddp_training.py: its ranks wait for each other. A job that does not go on is started again, and ends with the same weights."""
    timeout = LEASE + 20

    def __init__(self, hgtrain, place, shared, python, name, restarts=0):
        program = pathlib.Path(__file__).resolve().parent / 'ddp_training.py'
        super().__init__(hgtrain, place, name, python, str(program), '400', '100', str(self.timeout),
                         flags=['--env', 'GLOO_SOCKET_IFNAME=eth0', *(['--max_restarts', str(restarts), '--elastic_timeout', '0'] if restarts else [])])
        self.restarts = restarts
        folder = shared / name
        folder.mkdir()
        began = time.monotonic()
        outcome = self.run(folder, self.arguments)
        self.seconds = time.monotonic() - began
        require(outcome.status == 0, f'the undisturbed run fails\n{outcome.err}')
        self.done = re.search(r'done \w+', outcome.out)[0]

    def is_complete(self, outcome):
        """What a rank prints last comes a while before its end, which a host that is lost cannot report."""
        return super().is_complete(outcome) and 'error: ' not in outcome.err

    def end_of_stopped_rank(self, fault):
        """The launcher ends the job before the others reach PyTorch's timeout, unless it is late."""
        return {1, 5}, f'rank {fault.rank} has been stopped', self.seconds + self.timeout + self.end_limit + BUSY

    def after_stop_of_rank(self, fault):
        pass

    def trial(self, folder, planned, events):
        super().trial(folder, planned, events)
        outcome = self.run(folder, self.arguments)
        require(outcome.status == 0 and self.is_complete(outcome), f'it does not end as it should when it is started again: {outcome.status}')


class Training(Work):
    """hgtrain's own workers, which a run without a fault resumes in the end."""
    end_limit = 5  # a worker that does not obey an abort is killed
    run_dir = 'run'
    keep_last_n = 3

    def __init__(self, hgtrain, place, shared, name, *more):
        super().__init__(hgtrain, place)
        self.name, self.shared = name, shared
        self.restarts = 2 if '--max_restarts' in more else 0
        arguments = ['--config', 'config.json', '--run_dir', self.run_dir, '--device', 'cpu', '--hosts', 'a:2,b:2', '--steps', str(STEPS),
                     '--training.eval_interval', str(4 * SAVE_INTERVAL), '--checkpoint.save_interval', str(SAVE_INTERVAL)]
        self.arguments = [*arguments, '--checkpoint.keep_last_n', str(self.keep_last_n), *more]
        folder = shared / name
        self.lay_out(folder)
        began = time.monotonic()
        outcome = self.run(folder, [*arguments, '--checkpoint.keep_last_n', '0'])
        self.seconds = time.monotonic() - began
        require(outcome.status == 0, f'the undisturbed run fails\n{outcome.err}')
        self.metrics, self.files = self.metrics_of(folder), trials.files_below(folder / self.run_dir)

    lay_out = trials.Training.lay_out
    metrics_of = trials.Training.metrics_of
    check_saved = trials.Training.check_saved
    check_end = trials.Training.check_end
    steps = STEPS

    def is_complete(self, outcome):
        return re.search(rf'{STEPS}(/| of ){STEPS} ', outcome.err) and 'error: ' not in outcome.err

    def draw(self, drawn):
        return [choose(drawn) for _ in range(drawn.choice((1, 1, 2)))]

    def end_of_rank(self, fault):
        if fault.action == 'stop':
            return {5}, f'rank {fault.rank} ', 30 + 30 + self.end_limit + BUSY
        what = 'was killed by SIGKILL' if fault.target == 'rank' else 'was killed with its guard'
        return {137}, rf'rank {fault.rank} of 4 \(.* on {fault.host}\) {what}', 1 + self.end_limit + BUSY

    def trial(self, folder, planned, events):
        self.lay_out(folder)
        announced = set()
        for fault in planned:
            outcome = self.run(folder, self.arguments + (['--resume', 'auto'] if events else []), fault)
            events.append(f'{fault}: {outcome.status} after {outcome.seconds:.1f} s')
            self.judge(fault, outcome)
            self.check_saved(folder, outcome, announced)
        outcome = self.run(folder, [*self.arguments, '--resume', 'auto'])
        require(outcome.status == 0, f'it does not resume: exit status {outcome.status}')
        self.check_saved(folder, outcome, announced)
        self.check_end(folder)


def works(hgtrain, folder, python=None):
    """As trials.works(). With `python`, an interpreter that has PyTorch, half of the jobs are its DistributedDataParallel."""
    place = Place(folder)
    trials.Preparing(hgtrain, folder)
    if python:
        programs = [PyTorch(hgtrain, place, folder, python, 'PyTorch'), PyTorch(hgtrain, place, folder, python, 'restarting PyTorch', restarts=2)]
    else:
        programs = [Programs(hgtrain, place, 'programs', 'sh', '-c', SLEEPING),
                    Programs(hgtrain, place, 'stubborn programs', 'sh', '-c', 'trap "" TERM; ' + SLEEPING)]
    return [*programs, Training(hgtrain, place, folder, 'training'), Training(hgtrain, place, folder, 'restarting', '--max_restarts', '2', '--elastic_timeout', '0')]
