#!/usr/bin/env python3
"""How fast many ranks and hosts start, and what they cost the launcher.

    python3 tests/bench/launching.py build/hgtrain [ranks] [called] [dialled] [load] [first_step]

ranks       64 ranks on this machine: until the last one has printed a line
called      256 agents, started by a stand-in for ssh that runs them on this machine: until the first rank has printed a
            line, for which all must have joined, and until the last one has
dialled     the same for 255 nodes that dial node 0 over TLS
load        1000 ranks on 16 hosts of the same kind, which send a heartbeat and print a line each second: the CPU time of
            the launcher, and of an agent, as a share of one core
first_step  training with two workers on one host, and with one on each of two hosts over ssh, which are namespaces of this
            machine (tests/e2e/hosts.py; needs root): until the first step is done
Without a name: all of them."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv[1]).resolve()
STAND_IN = '#!/bin/sh\nfor word; do last=$word; done\nexec sh -c "$last"\n'
# A rank that speaks the protocol of a worker (src/wire): a hello, then heartbeats.
RANK = '''import json, os, select, socket
channel, rank = socket.socket(fileno=int(os.environ['HGTRAIN_CONTROL_FD'])), int(os.environ['RANK'])
def send(kind, payload):
    text = json.dumps(payload).encode()
    channel.sendall((len(text) + 1).to_bytes(4, 'little') + bytes([kind]) + text)
send(1, {'rank': rank, 'pid': os.getpid(), 'version': 1, 'key': os.environ['HGTRAIN_JOB_KEY']})
for step in range(10**9):
    send(4, {'step': step, 'collective': step, 'phase': 'forward', 'work': step, 'action': 'F0.0', 'waits_in': '', 'waits_for': 0, 'begun': step})
    print(f'step {step} of rank {rank}: loss 1.2345', flush=True)
    if select.select([channel], [], [], 1)[0]:
        break  # the launcher says that it is over
'''


class Job:
    """`hgtrain launch` with these arguments, in `folder`, where ssh is the stand-in."""

    def __init__(self, folder, *args, err=None, **env):
        self.began = time.monotonic()
        self.process = subprocess.Popen([PROGRAM, 'launch', *map(str, args)], cwd=folder, stdout=subprocess.PIPE, stderr=err, text=True,
                                        env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}', **env})

    def seconds_until_lines(self, counts):
        """When so many lines had come, for each of `counts`."""
        out, lines = [], 0
        for line in self.process.stdout:
            lines += 1
            if lines in counts:
                out.append(time.monotonic() - self.began)
            if lines == max(counts):
                return out
        raise SystemExit(f'the job has ended with {self.process.wait()} after {lines} lines')

    def end(self):
        self.process.terminate()
        self.process.communicate()


def cpu_seconds(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def agents_below(launcher):
    """The stand-in has become the agent, a child of the launcher."""
    children = pathlib.Path(f'/proc/{launcher}/task/{launcher}/children').read_text().split()
    return [int(pid) for pid in children if pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().endswith(b'\0agent\0')]


def ranks(folder):
    job = Job(folder, '--num_workers', 64, '--', 'sh', '-c', 'echo $RANK; exec sleep 1000')
    print(f'ranks: 64 ranks have started after {job.seconds_until_lines({64})[0]:.2f} s')
    job.end()


def called(folder):
    job = Job(folder, '--hosts', 'h[001-256]:1', '--master_addr', '10.0.0.1', '--', 'sh', '-c', 'echo $RANK; exec sleep 1000')
    first, last = job.seconds_until_lines({1, 256})
    print(f'called: the first rank of 256 hosts has started after {first:.2f} s, the last one after {last:.2f} s')
    job.end()


def dialled(folder):
    command = ('--nnodes', 256, '--nproc_per_node', 1, '--master_addr', '127.0.0.1', '--master_port', 29555, '--job_secret_env', 'SECRET')
    secret = {'SECRET': os.urandom(32).hex()}
    nodes = [Job(folder, *command, '--node_rank', node, '--', 'sh', '-c', 'echo $RANK; exec sleep 1000', **secret) for node in range(256)]
    first, last = nodes[0].seconds_until_lines({1, 256})
    print(f'dialled: the first rank of 256 nodes has started after {first:.2f} s, the last one after {last:.2f} s')
    for node in nodes[1:]:
        node.process.stdout.close()
    nodes[0].end()
    for node in nodes:
        node.process.wait()


def load(folder, seconds=20):
    (folder / 'rank.py').write_text(RANK)
    job = Job(folder, '--hosts', 'h[01-16]:63', '--num_workers', 63, '--master_addr', '10.0.0.1', '--', sys.executable, '-SE', 'rank.py')
    started = job.seconds_until_lines({1008})[0]
    reader = subprocess.Popen(['cat'], stdin=job.process.stdout, stdout=subprocess.DEVNULL)
    agents = agents_below(job.process.pid)
    time.sleep(5)
    before = [cpu_seconds(pid) for pid in (job.process.pid, *agents)]
    began = time.monotonic()
    time.sleep(seconds)
    shares = [100 * (cpu_seconds(pid) - b) / (time.monotonic() - began) for pid, b in zip((job.process.pid, *agents), before)]
    print(f'load: 1008 ranks on 16 hosts have printed a line after {started:.1f} s; then the launcher takes {shares[0]:.1f} % of a core, '
          f'an agent of 63 ranks {max(shares[1:]):.1f} %')
    job.process.terminate()
    job.process.wait()
    reader.wait()


def first_step(folder):
    sys.path.insert(0, str(ROOT / 'tests/e2e'))
    sys.argv = ['hosts', str(PROGRAM)]
    import hosts

    case = type('Case', (hosts.HostsCase,), {'runTest': lambda self: None})
    case.setUpClass()
    test = case()
    job = test.prepare('job', 3)
    for place in ('a:2', 'a:1,b:1', 'a:2', 'a:1,b:1'):
        run = f'run{time.monotonic_ns()}'
        began = time.monotonic()
        process = test.start('--config', 'config.json', '--device', 'cpu', '--run_dir', run, '--steps', '2000', hosts=place, cwd=job, command=('train',))
        log = job / run / 'logs/rank_0.log'
        while not (log.exists() and ' step 1 ' in log.read_text()):
            time.sleep(0.005)
        print(f'first_step: {place} after {time.monotonic() - began:.2f} s')
        process.terminate()
        process.communicate()
    case.doClassCleanups()


def main():
    for name in sys.argv[2:] or ['ranks', 'called', 'dialled', 'load', 'first_step']:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'ssh').write_text(STAND_IN)
            (pathlib.Path(folder) / 'ssh').chmod(0o755)
            globals()[name](pathlib.Path(folder))


if __name__ == '__main__':
    main()
