"""What a user of torchrun has: a DistributedDataParallel script that reads its place from the environment."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group('gloo', init_method='env://')
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
x, y = torch.randn(64, 8), torch.randn(64, 1)
for step in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and rank == 1 and step == 2:
        raise RuntimeError('rank 1 fails once')
print(rank, 'weights', sum(p.sum().item() for p in model.parameters()))
dist.destroy_process_group()
