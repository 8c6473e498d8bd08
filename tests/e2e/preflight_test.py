"""What is checked on hosts before anything starts there."""
import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import unittest

from hosts import PROGRAM, SSHD, HostsCase, main, sh


def version_hash(version):
    """By which the loader looks for a version of a library."""
    out = 0
    for byte in version:
        out = (out << 4) + byte
        out = (out ^ (out & 0xf0000000) >> 24) & 0x0fffffff
    return struct.pack('<I', out)


def of_newer_glibc(program):
    """The bytes of a program that asks for a version of glibc which is not there yet."""
    old, new = b'GLIBC_2.34', b'GLIBC_9.99'
    out = program.read_bytes()
    for before, after in ((old + b'\0', new + b'\0'), (version_hash(old) + b'\0\0', version_hash(new) + b'\0\0')):
        assert before in out, (program, before)
        out = out.replace(before, after)
    return out


class PreflightTest(HostsCase):
    def login(self, *options, key='key', port=2222, known='StrictHostKeyChecking no\n UserKnownHostsFile /dev/null'):
        return (f' Port {port}\n User root\n IdentityFile {self.hosts.folder}/{key}\n IdentitiesOnly yes\n {known}\n'
                + ''.join(f' {option}\n' for option in options))

    def test_each_way_in_which_ssh_fails_is_recognised(self):
        net, folder = self.hosts.net, self.hosts.folder
        sh('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder / 'other')
        kind, public, _ = (folder / 'other.pub').read_text().split()
        (folder / 'known').write_text(f'[{net}.1]:2222 {kind} {public}\n')
        hosts = {
            'changed': (1, self.login(known=f'UserKnownHostsFile {folder}/known'), 'its host key has changed: it is not the one in '
                        f'{folder}/known:1', 'ssh-keygen -R'),
            'unknown': (1, self.login(known='UserKnownHostsFile /dev/null'), 'its host key is not known here', 'confirm'),
            'denied': (1, self.login(key='other'), r'Permission denied \(publickey', 'ssh-copy-id'),
            'refused': (1, self.login(port=2223), 'Connection refused', 'no ssh server listens'),
            'absent': (99, self.login(), 'No route to host', 'ip route get'),
            'dead_jump': (2, self.login('ProxyJump refused'), 'its jump host or ProxyCommand fails: ssh: connect .* Connection refused',
                          'ssh -v dead_jump'),
            'behind_refused': (2, self.login('ProxyJump a', port=2223), 'its jump host cannot reach it: .*Connection refused',
                               'try from there'),
        }
        config = folder / 'ssh_config'
        before = config.read_text()
        config.write_text(before + ''.join(f'Host {name}\n HostName {net}.{number}\n{login}'
                                           for name, (number, login, *_) in hosts.items()))
        try:
            out, err = self.run_on_hosts('--', 'echo', 'started', hosts=','.join(['a', 'nowhere.invalid', *hosts]), exit_code=3)
        finally:
            config.write_text(before)
        self.assertEqual(out, '')
        self.assertNotIn('host a cannot', err)
        hosts['nowhere.invalid'] = (0, '', 'Could not resolve hostname', '')
        for name, (_, _, why, hint) in hosts.items():
            self.assertRegex(err, rf'host {name} cannot be used: .*{why}.*\n  hint: .*{hint}', name)

    @contextlib.contextmanager
    def second_sshd(self, name, port, *options):
        """Another ssh server of the host, for the block."""
        lines = (self.hosts.folder / f'sshd_{name}').read_text().replace('Port 2222', f'Port {port}')
        settings = self.hosts.folder / f'sshd_{name}_{port}'
        settings.write_text(lines + ''.join(f'{option}\n' for option in options))
        server = subprocess.Popen(['nsenter', '-t', str(self.hosts.first_process(name)), '-n', SSHD, '-D', '-f', settings])
        try:
            yield
        finally:
            server.kill()
            server.wait()

    def greeted(self, address, port):
        """A connection to an ssh server on which nobody logs in."""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                out = socket.create_connection((address, port), timeout=60)
                out.recv(1)
                return out
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_host_whose_jump_host_drops_connections_for_a_while_is_called_again(self):
        net = self.hosts.net
        config = self.hosts.folder / 'ssh_config'
        before = config.read_text()
        config.write_text(before + f'Host crowded\n HostName {net}.1\n{self.login(port=2224)}'
                          f'Host behind_crowded\n HostName {net}.2\n{self.login("ProxyJump crowded")}')
        try:
            with self.second_sshd('a', 2224, 'MaxStartups 1:100:1'):
                with self.greeted(f'{net}.1', 2224):
                    process = self.start('--', 'hostname', hosts='behind_crowded')
                    said = process.stderr.readline()
                out, err = process.communicate(timeout=300)
        finally:
            config.write_text(before)
        self.assertIn('hgtrain: host behind_crowded is called again, up to 4 times, because its connection was dropped before the login: '
                      'its jump host', said)
        self.assertEqual((process.returncode, out), (0, 'b\n'), err)

    def test_a_host_that_drops_what_is_sent_to_it_is_named_within_seconds(self):
        route = ['ip', '-n', f'{self.hosts.bridge}b', 'route']
        sh(*route, 'add', 'blackhole', f'{self.hosts.net}.254/32')
        try:
            start = time.monotonic()
            _, err = self.run_on_hosts('--', 'echo', 'started', exit_code=3)
            self.assertLess(time.monotonic() - start, 8)
        finally:
            sh(*route, 'del', 'blackhole', f'{self.hosts.net}.254/32')
        self.assertRegex(err, 'host b cannot be used: ssh: connect to host .* Connection timed out\n  hint: the host is down, or a firewall')

    def test_a_login_shell_that_starts_nothing_is_named(self):
        shell = self.hosts.folder / 'nologin'
        shell.write_text('#!/bin/sh\necho This account is currently not available.\nexit 1\n')
        shell.chmod(0o755)
        users = self.hosts.folder / 'passwd_nologin'
        with open('/etc/passwd') as passwd:
            users.write_text(re.sub(r'(?m)^(root:.*):[^:]*$', rf'\1:{shell}', passwd.read()))
        inside = ['nsenter', '-t', self.hosts.first_process('b'), '-m', '-p']
        sh(*inside, 'mount', '--bind', users, '/etc/passwd')
        try:
            _, err = self.run_on_hosts('--', 'true', exit_code=3)
        finally:
            sh(*inside, 'umount', '--lazy', '/etc/passwd')
        self.assertIn('host b cannot be used: its login shell starts no program, and says: This account is currently not available.', err)
        self.assertIn('chsh', err)

    def test_possible_problems_of_hosts_are_notices_and_certain_ones_are_errors(self):
        self.assertEqual(self.run_on_hosts('--log_dir', 'logs', '--', 'true')[1], '')
        mtu = ('ip', '-n', f'{self.hosts.bridge}b', 'link', 'set', 'eth0', 'mtu')
        sh(*mtu, '1400')
        profile = self.hosts.folder / 'home_b/.bashrc'
        profile.write_text('ulimit -n 600\n')
        try:
            out, err = self.run_on_hosts('--', 'sh', '-c', 'echo $RANK')
            profile.write_text('ulimit -n 25\n')
            _, refused = self.run_on_hosts('--', 'echo', 'started', exit_code=3)
        finally:
            sh(*mtu, '1500')
            profile.unlink()
        self.assertEqual(len(out.splitlines()), 4)
        self.assertIn('hgtrain: the MTU differs between hosts: 1400 of eth0 on b; 1500 of eth0 on a', err)
        self.assertIn('hgtrain: on host b only 600 files may be open at once', err)
        self.assertIn('error: on host b only 25 files may be open at once, and 2 workers there need', refused)

    def test_a_machine_that_is_named_twice_gives_a_notice(self):
        _, err = self.run_on_hosts('--', 'true', hosts='b,six')
        self.assertIn('hgtrain: hosts b and six are one machine', err)

    def test_a_disk_that_cannot_take_logs_is_an_error(self):
        logs = self.work / 'full'
        logs.mkdir()
        inside = ['nsenter', '-t', self.hosts.first_process('b'), '-m', '-p']
        sh(*inside, 'mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', logs)
        try:
            _, err = self.run_on_hosts('--log_dir', logs, '--', 'true', exit_code=3)
        finally:
            sh(*inside, 'umount', '--lazy', logs)
        self.assertIn(f'on host b logs cannot be written: {logs} is on a disk with 64 KiB free, and logs need 1024 KiB\n', err)

    def test_doctor_looks_at_all_hosts_and_starts_nothing(self):
        (self.work / 'hostfile').write_text('a slots=3\nnode02 slots=1 iface=fast\nrefused slots=1\n')
        config = self.hosts.folder / 'ssh_config'
        before = config.read_text()
        config.write_text(before + f'Host refused\n HostName {self.hosts.net}.1\n{self.login(port=2223)}')
        try:
            out, _ = self.run_on_hosts(hosts=None, command=('doctor', '--hostfile', 'hostfile'), exit_code=3)
            said, _ = self.run_on_hosts(hosts=None, command=('doctor', '--hostfile', 'hostfile', '--json'), exit_code=3)
            ready, _ = self.run_on_hosts('--json', hosts='a:3,b', command=('doctor',))
            unknown, _ = self.run_on_hosts(hosts='a,refused', command=('doctor',), exit_code=3)
        finally:
            config.write_text(before)
        lines = out.splitlines()
        self.assertRegex(lines[0], '^host +workers +CPUs +memory +GPUs +driver +network +state$')
        self.assertRegex(lines[1], f'^a +3 +{os.cpu_count()} .* eth0, MTU 1500 +answers$')
        self.assertRegex(lines[2], '^node02 +1 .* fast, MTU 1500 +answers$')
        self.assertRegex(lines[3], '^refused +1 .*cannot be used$')
        self.assertRegex(unknown, r'\nrefused +- +- .*cannot be used\n')
        self.assertIn('problem: host refused cannot be used: ssh: connect to host', out)
        self.assertIn('not ready', lines[-1])
        hosts = json.loads(said)['hosts']
        self.assertEqual([host['doctor'].get('host') for host in hosts], ['a', 'b', None])
        self.assertLess(abs(hosts[0]['clock_ahead_seconds']), 60)
        self.assertIn('Connection refused', hosts[2]['why_unusable'])
        self.assertEqual(json.loads(ready)['problems'], [])
        self.assertEqual([host['workers'] for host in json.loads(ready)['hosts']], [3, 1])

    def test_an_address_that_is_none_of_its_host_is_named_by_doctor_and_job(self):
        elsewhere = f'{self.hosts.net}.77'
        said = f'{elsewhere} (addr= in the hostfile, or --master_addr) is no address of a: '
        (self.work / 'hostfile').write_text(f'a slots=1 addr={elsewhere}\nb slots=1\n')
        out, _ = self.run_on_hosts(hosts=None, command=('doctor', '--hostfile', 'hostfile'))
        self.assertIn(f'notice: {said}', out)
        self.assertRegex(out, r'\na .* unknown +answers\n')
        _, err = self.run_on_hosts('--master_addr', elsewhere, '--', 'true')
        self.assertIn(f'hgtrain: {said}', err)
        _, err = self.run_on_hosts('--master_addr', f'{self.hosts.fast}.1', '--', 'true')
        self.assertNotIn('no address of', err)

    def test_links_between_hosts_are_measured(self):
        (self.work / 'hostfile').write_text('a slots=1 iface=fast\nb slots=1\n')
        before = self.hosts.sent('b', 'fast')
        out, _ = self.run_on_hosts(hosts=None, command=('doctor', '--hostfile', 'hostfile', '--links'))
        self.assertRegex(out, r'\nb to a +\d+ us +[\d.]+ Gbit/s\n')
        self.assertGreater(self.hosts.sent('b', 'fast') - before, 1_000_000)
        block = ['ip', '-n', f'{self.hosts.bridge}b', 'route']
        sh(*block, 'add', 'unreachable', f'{self.hosts.net}.1/32')
        try:
            out, _ = self.run_on_hosts('--json', '--links', hosts='a,b', command=('doctor',), exit_code=3)
        finally:
            sh(*block, 'del', 'unreachable', f'{self.hosts.net}.1/32')
        link, = json.loads(out)['links']
        self.assertRegex(link['why_unusable'], f'cannot connect to {self.hosts.net}.1 port .*')
        self.assertIn('from host b to a no connection can be made', json.loads(out)['problems'][0]['message'])

    def test_a_host_whose_glibc_is_too_old_is_named_before_anything_starts(self):
        folder = self.work / 'newer'
        folder.mkdir()
        shutil.copy(PROGRAM, folder)
        (folder / 'hgtrain-worker').write_bytes(of_newer_glibc(PROGRAM.parent / 'hgtrain-worker'))
        (folder / 'hgtrain-worker').chmod(0o755)
        for where in contextlib.nullcontext(), self.hosts.without('b', folder):  # it sees the program, or gets it
            with where:
                out, err = self.run_on_hosts('--', 'echo', 'started', program=folder / 'hgtrain', hosts='b', exit_code=3)
            self.assertEqual(out, '')
            self.assertRegex(err, r"host b cannot be used: this host cannot run hgtrain: .*version `GLIBC_9\.99' not found")

    def test_a_host_that_cannot_take_or_execute_the_copy_is_named(self):
        cache = ('nsenter', '-t', self.hosts.first_process('b'), '-m', '-p')
        for options, why in (('noexec', 'this host cannot run hgtrain: .*Permission denied'),
                             ('size=1m', 'the program cannot be sent to .*No space left on device')):
            sh(*cache, 'mount', '-t', 'tmpfs', '-o', options, 'tmpfs', '/root')
            try:
                with self.hosts.without('b', PROGRAM.parent):
                    for command in ('launch', '--', 'true'), ('launch', '--detach', '--log_dir', 'logs', '--', 'true'), ('doctor',):
                        out, err = self.run_on_hosts(*command[1:], hosts='b', command=command[:1], exit_code=3)
                        self.assertRegex(out + err, f'host b cannot be used: {why}', command)
            finally:
                sh(*cache, 'umount', '-l', '/root')


if __name__ == '__main__':
    main()
