"""What host_trials.py starts with hgtrain launch: PyTorch's DistributedDataParallel on CPUs, over Gloo. Rank 0 saves in this folder, and
whoever starts again continues from there. Each rank ends by printing a hash of the weights.
usage: ddp_training.py STEPS SAVE_INTERVAL TIMEOUT, the seconds that a collective may take"""
import datetime
import hashlib
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    steps, save_interval, timeout = map(int, sys.argv[1:])
    torch.manual_seed(1)
    dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=timeout))
    # A single tensor: DDP orders several anew after the first step, and Gloo sums each place of a bucket in an order of its own.
    model = DistributedDataParallel(torch.nn.Linear(16, 4, bias=False))
    optimizer = torch.optim.Adam(model.parameters())
    saved = pathlib.Path('saved.pt')
    first = 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        first = state['steps']
        model.load_state_dict(state['model'])
        optimizer.load_state_dict(state['optimizer'])
    for step in range(first, steps):
        generator = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randn(8, 16, generator=generator)).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
        if dist.get_rank() == 0 and (step + 1) % save_interval == 0:
            torch.save({'steps': step + 1, 'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'saved.part')
            os.replace('saved.part', saved)
    weights = b''.join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    dist.barrier()
    print('done', hashlib.sha256(weights).hexdigest()[:16], flush=True)
    dist.destroy_process_group()


main()
