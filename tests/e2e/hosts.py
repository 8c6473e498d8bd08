"""Hosts for tests: namespaces of this machine (network, mounts, names, processes, IPC, /dev/shm and clocks), each with a real sshd.
Needs root, sshd, ip and unshare; without them main() ends with 77. The first argument of a test is the built hgtrain."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

from run_folder import RunFolder

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
SSHD = shutil.which('sshd', path=os.environ['PATH'] + ':/usr/sbin')
MARK = f'HGT_HOSTS_TEST_{os.getpid()}_'  # in the environment of all that runs on a host


def sh(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options)


def unusable():
    """Why this machine can have no such hosts, '' if it can."""
    if os.getuid() != 0:
        return 'not root'
    for name in ('ip', 'unshare', 'ssh', 'ssh-keygen'):
        if not shutil.which(name):
            return f'no {name}'
    if not SSHD:
        return 'no sshd: apt-get install openssh-server'
    try:
        sh('unshare', '-n', '-m', '-u', '-p', '-i', '--fork', '--mount-proc', 'true')
    except subprocess.CalledProcessError as error:
        return error.stderr.strip()
    return ''


HAVE_TIME_SPACES = os.path.exists('/proc/self/ns/time')


def clocks_of(number):
    """For unshare: the host's monotonic clocks are far ahead of this machine's, or behind."""
    if not HAVE_TIME_SPACES:
        return []
    uptime = float(pathlib.Path('/proc/uptime').read_text().split()[0])
    ahead = 5000 * number if number % 2 else -int(min(3000, uptime / 2))
    return ['-T', '--monotonic', str(ahead), '--boottime', str(ahead)]


class Hosts:
    """Hosts with names of one letter, and this machine, which reaches them. They alone have a second network, `fast`."""

    def __init__(self, folder, names):
        self.folder = pathlib.Path(folder)
        pid = os.getpid()
        self.net = f'10.{100 + pid % 100}.{pid // 100 % 250}'
        self.bridge, self.fast_bridge = f'hgt{pid}', f'hgf{pid}'
        self.net6 = f'fd00:{pid % 9998 + 1}'  # fd00::/64 may be this machine's own
        self.fast = f'10.{200 + pid % 50}.{pid // 50 % 250}'
        self.names, self.processes = names, []
        try:
            self.up()
        except BaseException:
            self.down()
            raise

    def up(self):
        pathlib.Path('/run/sshd').mkdir(exist_ok=True)
        for key in ('key', 'hostkey'):
            sh('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', self.folder / key)
        self.delete_networks()  # those that a killed test with the same pid has left
        for bridge in (self.bridge, self.fast_bridge):
            sh('ip', 'link', 'add', bridge, 'type', 'bridge')
            sh('ip', 'link', 'set', bridge, 'up')
        sh('ip', 'addr', 'add', f'{self.net}.254/24', 'dev', self.bridge)
        sh('ip', 'addr', 'add', f'{self.net6}::fe/64', 'dev', self.bridge, 'nodad')
        config = ''
        for number, name in enumerate(self.names, start=1):
            self.start_host(number, name)
            config += (f'Host {name} node0{number}\n HostName {self.net}.{number}\n Port 2222\n User root\n IdentityFile {self.folder}/key\n'
                       ' IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n')
        config += f'Host shut\n HostName {self.net}.1\n Port 2223\n'
        login = (f' Port 2222\n User root\n IdentityFile {self.folder}/key\n IdentitiesOnly yes\n StrictHostKeyChecking no\n'
                 ' UserKnownHostsFile /dev/null\n')
        config += f'Host bare\n HostName {self.net}.2\n User nobody\n Port 9\n{login.split("User root", 1)[1]}'
        config += f'Host behind\n HostName {self.net}.2\n ProxyJump a\n{login}'
        config += f'Host six\n HostName {self.net6}::2\n{login}'
        config += f'Host busy\n HostName {self.net}.2\n RemoteCommand echo no; sleep 1000\n RequestTTY yes\n StdinNull yes\n{login}'
        (self.folder / 'ssh_config').write_text(config)
        # ssh reads the configuration of the user's home from /etc/passwd: no variable changes that.
        wrapper = self.folder / 'bin/ssh'
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)
        for name in self.names:
            self.wait_for_sshd(name)

    def start_host(self, number, name):
        space = f'{self.bridge}{name}'
        home = self.folder / f'home_{name}'
        home.mkdir()
        sh('ip', 'netns', 'add', space)
        for bridge, net, device in ((self.bridge, self.net, 'eth0'), (self.fast_bridge, self.fast, 'fast')):
            sh('ip', 'link', 'add', f'{bridge}{name}', 'type', 'veth', 'peer', 'name', device, 'netns', space)
            sh('ip', 'link', 'set', f'{bridge}{name}', 'master', bridge, 'up')
            sh('ip', '-n', space, 'addr', 'add', f'{net}.{number}/24', 'dev', device)
        sh('ip', '-n', space, 'addr', 'add', f'{self.net6}::{number}/64', 'dev', 'eth0', 'nodad')
        for device in ('eth0', 'fast', 'lo'):
            sh('ip', '-n', space, 'link', 'set', device, 'up')
        (self.folder / f'sshd_{name}').write_text(
            f'Port 2222\nHostKey {self.folder}/hostkey\n'
            f'AuthorizedKeysFile {self.folder}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n'
            f'SetEnv {MARK}=1\n')
        start = (f'hostname {name}; mount -t tmpfs tmpfs /dev/shm; mount --bind {home} /root; '
                 f'exec {SSHD} -D -e -f {self.folder}/sshd_{name}')
        with (self.folder / f'sshd_{name}.log').open('w') as log:
            self.processes.append(subprocess.Popen(
                ['ip', 'netns', 'exec', space, 'unshare', '-m', '-u', '-p', '-i', *clocks_of(number), '--fork', '--kill-child', '--mount-proc',
                 'sh', '-c', start], stderr=log, cwd='/'))

    def first_process(self, name):
        """The number of the host's sshd, here."""
        return next(pid for pid, line, _ in command_lines()
                    if b'sshd' in line and f'{self.folder}/sshd_{name}'.encode() in line and b'unshare' not in line)

    @contextlib.contextmanager
    def unreachable(self, name, bridge=None):
        """Nothing gets to the host, nor away from it, over this network; unless another is named, that is ssh's."""
        link = f'{bridge or self.bridge}{name}'
        sh('ip', 'link', 'set', link, 'down')
        try:
            yield
        finally:
            sh('ip', 'link', 'set', link, 'up')
            if not bridge:
                self.wait_for_network(name)

    def wait_for_network(self, name, limit=30):
        """Once its link is up, the kernel takes a while to notice, and then to find the host again."""
        start = time.monotonic()
        while True:
            try:
                socket.create_connection((f'{self.net}.{1 + self.names.index(name)}', 2222), timeout=1).close()
                return
            except ConnectionRefusedError:
                return
            except OSError:
                if time.monotonic() - start > limit:
                    raise
                time.sleep(0.05)

    @contextlib.contextmanager
    def small_socket_buffers(self, names):
        """The kernel keeps little of what TCP sends and receives on these hosts."""
        settings = [f'/proc/sys/net/ipv4/tcp_{kind}mem' for kind in 'wr']
        before = [pathlib.Path(setting).read_text().split() for setting in settings]

        def write(values):
            for name in names:
                for setting, value in zip(settings, values):
                    sh('nsenter', '-t', self.first_process(name), '-n', 'sh', '-c', f'echo {" ".join(value)} > {setting}')
        write([['4096'] * 3] * 2)
        try:
            yield
        finally:
            write(before)

    @contextlib.contextmanager
    def without(self, name, folder):
        """The folder is empty on the host."""
        enter = ('nsenter', '-t', self.first_process(name), '-m', '-p')
        sh(*enter, 'mount', '-t', 'tmpfs', 'tmpfs', folder)
        try:
            yield
        finally:
            sh(*enter, 'umount', '-l', folder)

    def processes_of(self, name):
        """(pid, command line) of what the tests have started on the host, by their numbers here."""
        def space(pid):
            with contextlib.suppress(FileNotFoundError):  # it may have ended
                return os.readlink(f'/proc/{pid}/ns/pid')

        on_host = space(self.first_process(name))
        return [(pid, line) for pid, line, environment in command_lines() if MARK.encode() in environment and space(pid) == on_host]

    def agents_of(self, name):
        return [pid for pid, line in self.processes_of(name) if line.endswith(b'\0agent\0')]

    def left(self):
        """What still runs on a host, or was started to reach one: (pid, command line). No process leaves the host's network namespace, whatever
        it makes of its environment, and those of Slurm and of pods are in it too. What starts processes there does not count."""
        spaces = {network_of(self.first_process(name)) for name in self.names}
        return [(pid, line) for pid, line, environment in command_lines()
                if line and not STARTERS.match(line) and (MARK.encode() in environment or network_of(pid) in spaces)]

    def wait_for_sshd(self, name):
        deadline = time.monotonic() + 60
        while subprocess.run([self.folder / 'bin/ssh', name, 'true'], capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError((self.folder / f'sshd_{name}.log').read_text())

    def down(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.delete_networks()

    def delete_networks(self):
        """As far as they are there."""
        bridges = (self.bridge, self.fast_bridge)
        for link in (*(f'{bridge}{name}' for bridge in bridges for name in self.names), *bridges):
            subprocess.run(['ip', 'link', 'del', link], check=False, stderr=subprocess.DEVNULL)
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', f'{self.bridge}{name}'], check=False, stderr=subprocess.DEVNULL)

    def sent(self, name, device):
        """Bytes that the host has sent there."""
        return int(sh('ip', 'netns', 'exec', f'{self.bridge}{name}', 'cat', f'/sys/class/net/{device}/statistics/tx_bytes').stdout)


STARTERS = re.compile(rb'([^\0 ]*/)?(sshd|slurmd|slurmstepd|unshare|nsenter)\b')


def network_of(pid):
    try:
        return os.readlink(f'/proc/{pid}/ns/net')
    except OSError:
        return None


def command_lines():
    """Of all processes: those of the hosts are seen from here too."""
    lines = []
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            lines.append((int(entry.name), (entry / 'cmdline').read_bytes(), (entry / 'environ').read_bytes()))
        except OSError:
            pass
    return lines


MAX_STRANGERS_KIB = 16 << 10  # that they may cost a process


def strangers(address, port, count=400):
    """Connections to a port by somebody who is not of the job. They say nothing, what no program understands, half a TLS hello, or
    that a message of gigabytes comes; and they stay, unless the port drops them."""
    out = []
    for i in range(count):
        out.append(socket.create_connection((address, port), timeout=10))
        with contextlib.suppress(OSError):
            out[-1].send((b'', b'GET / HTTP/1.1\r\n\r\n' * 100, b'\x16\x03\x01\x02\x00\x01\x00', b'\xff\xff\xff\x7f' + bytes(5000))[i % 4])
    return out


def listening_ports(pid):
    """In the network of the process."""
    lines = [line for name in ('tcp', 'tcp6') for line in pathlib.Path(f'/proc/{pid}/net/{name}').read_text().splitlines()[1:]]
    return {int(fields[1].split(':')[1], 16) for fields in map(str.split, lines) if fields[3] == '0A'}


def resident_kib(pid):
    return int(re.search(r'VmRSS:\s*(\d+)', pathlib.Path(f'/proc/{pid}/status').read_text())[1])


class HostsCase(unittest.TestCase):
    """Tests that share the hosts `names`. Each leaves nothing there."""
    names = 'ab'

    @classmethod
    def setUpClass(cls):
        cls.temporary = RunFolder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.hosts = Hosts(cls.temporary.name, cls.names)
        cls.addClassCleanup(cls.hosts.down)
        cls.work = pathlib.Path(cls.temporary.name) / 'work'
        cls.work.mkdir()

    def tearDown(self):
        self.wait_until_nothing_is_left()

    def wait_until_nothing_is_left(self, seconds=10):
        """On any host."""
        deadline = time.monotonic() + seconds
        while left := [line for _, line in self.hosts.left()]:
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.01)

    def start(self, *args, hosts='a:2,b:2', env=(), cwd=None, command=('launch',), program=None, output=subprocess.PIPE):
        path = f'{self.hosts.folder}/bin:' + os.environ['PATH']
        return subprocess.Popen([program or PROGRAM, *command, *(['--hosts', hosts] if hosts else []), *args], cwd=cwd or self.work, text=True,
                                stdout=output, stderr=output, env={**os.environ, 'PATH': path, **dict(env)})

    def run_on_hosts(self, *args, exit_code=0, **options):
        process = self.start(*args, **options)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, exit_code, out + err)
        return out, err

    def wait_for(self, condition, process=None):
        """What it returns, once that is something; until then the process, if any is given, runs."""
        deadline = time.monotonic() + 120
        while not (found := condition()):
            self.assertIsNone(process and process.poll(), 'it has ended')
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return found

    def read_until(self, text, process):
        """What the process writes to stderr, up to the line that contains the text."""
        said = ''
        while text not in said:
            line = process.stderr.readline()
            self.assertTrue(line, said)
            said += line
        return said

    def prepare(self, name, seed):
        """Data and a config in the folder `name`, which is returned."""
        folder = self.work / name
        folder.mkdir()
        words = 'the quick brown fox jumps over a lazy dog while seven small birds sing'.split()
        (folder / 'text.txt').write_text('\n'.join(
            ' '.join(words[(i * i + seed * j) % len(words)] for j in range(12)) for i in range(1500)))
        sh(PROGRAM, 'data', 'prepare', '--input', 'text.txt', '--out', 'data', cwd=folder)
        (folder / 'config.json').write_text(json.dumps({
            'train_batch_size': 8, 'train_micro_batch_size_per_gpu': 1,
            'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-3}},
            'model': {'model_type': 'gpt2', 'n_embd': 32, 'n_layer': 2, 'n_head': 2, 'n_positions': 32},
            'training': {'train_iters': 12, 'seq_length': 32, 'seed': 7, 'eval_interval': 5, 'eval_iters': 2},
            'data': {'train_data_path': 'data', 'valid_fraction': 0.1},
            'checkpoint': {'save_interval': 5}, 'hardware': {'threads': 1}}))
        return folder

    def train_on_hosts(self, folder, run, *args, **options):
        return self.run_on_hosts('--config', 'config.json', '--device', 'cpu', '--run_dir', run, *args, cwd=folder,
                                 command=('train',), **options)

    @staticmethod
    def losses(folder, run):
        lines = (folder / run / 'metrics.jsonl').read_text().splitlines()
        return [(m['step'], m['loss'], m.get('eval_loss')) for m in map(json.loads, lines)]


def main():
    if why := unusable():
        print('skipped:', why)
        sys.exit(77)
    unittest.main()
