#!/usr/bin/env python3
"""How much faster steps are if sums between hosts go over two levels (docs/architecture.md): trains on two hosts with two workers each, which
are namespaces of this machine (tests/e2e/hosts.py; needs root), whose network passes a limited number of bits.

    python3 tests/bench/two_levels.py build/hgtrain [200mbit 1gbit ...]"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'e2e'))
rates = sys.argv[2:] or ['200mbit', '1gbit']
del sys.argv[2:]
import hosts  # noqa: E402  takes the program from sys.argv


class Case(hosts.HostsCase):
    def runTest(self):
        job = self.prepare('job', 3)
        for rate in rates:
            for name in 'ab':
                hosts.sh('ip', 'netns', 'exec', f'{self.hosts.bridge}{name}', 'tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', 'tbf', 'rate', rate,
                         'burst', '256kb', 'latency', '100ms')
            losses = []
            for turn in range(2):
                for levels, flags in (('one level ', ('--distributed.backend', 'gloo')), ('two levels', ())):
                    run = f'{rate}{levels.replace(" ", "")}{turn}'
                    before = self.hosts.sent('a', 'eth0')
                    self.train_on_hosts(job, run, '--steps', '12', '--training.eval_interval', '0', '--checkpoint.save_interval', '0', '--model.n_embd', '256',
                                        '--model.n_layer', '4', *flags)
                    lines = [json.loads(line) for line in (job / run / 'metrics.jsonl').read_text().splitlines()]
                    losses.append([line['loss'] for line in lines])
                    print(f'{rate} {levels}: a step takes {statistics.median(line["step_ms"] for line in lines[5:]):.0f} ms, and host a sends '
                          f'{(self.hosts.sent("a", "eth0") - before) / 12e6:.1f} MB', flush=True)
            self.assertEqual(losses, losses[:1] * 4)


if __name__ == '__main__':
    hosts.main()
