"""The objects of `hgtrain submit k8s` are what Kubernetes' own schemas ask for, in each version from 1.29 on. Argument: build/hgtrain.
Without kubernetes-validate, which brings the schemas, it ends with 77."""
import json
import pathlib
import subprocess
import sys

try:
    from kubernetes_validate.utils import ValidationError, all_versions, validate
except ImportError:
    print('skipped: no kubernetes-validate (scripts/setup --test)')
    sys.exit(77)

CONFIG = pathlib.Path(__file__).parents[2] / 'configs/gpt2-124m.json'
JOBS = (['--gpus', '8', '--nodes', '2'], ['--num_workers', '4'], ['--gpus', '1', '--cpus', '16', '--memory', '64Gi', '--namespace', 'team', '--time', '12:00:00'])

versions = [version for version in sorted(set(all_versions())) if tuple(map(int, version.split('.')[:2])) >= (1, 29)]
for flags in JOBS:
    out = subprocess.run([sys.argv[1], 'submit', 'k8s', CONFIG, '--image', 'registry/hgtrain:0.1', '--claim', 'data', *flags, '--dry_run'],
                         capture_output=True, text=True, check=True).stdout
    items = json.loads(out)['items']
    assert [item['kind'] for item in items] == ['Secret', 'Service', 'Job'], items
    for version in versions:
        for item in items:
            validate(item, version, strict=True)
    items[2]['spec']['template']['spec']['containers'][0]['imagge'] = 'x'
    try:
        validate(items[2], versions[-1], strict=True)
    except ValidationError:
        continue
    sys.exit('a key that Kubernetes does not know was accepted')
print('valid for', *versions)
