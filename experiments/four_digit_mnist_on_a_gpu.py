# ruff: noqa
"""Four-digit MNIST on a GPU: every method, every setting, every seed; a step is one CUDA graph.

    python experiments/four_digit_mnist_on_a_gpu.py digits.npz        # writes tune.jsonl, then ten.jsonl

digits.npz has MNIST's first 55,000 training digits (train_x, train_y), the other 5,000 (val) and the 10,000 of test.
"""
import json, os, sys, time, argparse, math
from functools import partial
from pathlib import Path
import numpy as np, torch
from torch import nn, Tensor
import torch.nn.functional as F

dev = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cuda.matmul.allow_tf32 = True; torch.backends.cudnn.allow_tf32 = True
LENGTH = 4
POW = torch.tensor([1000, 100, 10, 1], device=dev)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
                                      nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()).to(memory_format=torch.channels_last)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 7 * 28, 64), nn.ReLU(), nn.Linear(64, 1))
    def forward(self, images):
        x = (images.unsqueeze(1).float() / 255).to(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.training and BF16, cache_enabled=False):
            x = self.features(x)
        return self.head(x.float()).squeeze(-1)

BF16 = True

# distribution functions and densities
def laplace_F(z): return torch.where(z > 0, 1 - 0.5 * torch.exp(-z.abs()), 0.5 * torch.exp(-z.abs()))
def laplace_f(z): return 0.5 * torch.exp(-z.abs())
def logistic_F(z): return torch.sigmoid(z)
def logistic_f(z): s = torch.sigmoid(z); return s * (1 - s)

def soft_perm(scores, softness, kind):
    """P[k, i] of place k (0 = largest), the score i; F at its own quantiles."""
    Fn, fn = (laplace_F, laplace_f) if kind == "laplace" else (logistic_F, logistic_f)
    s = scores / softness; n = s.shape[-1]
    want = torch.arange(1, n, device=s.device, dtype=s.dtype)  # sum_i F(s_i - t) = k
    with torch.no_grad():
        d = s.detach()
        lo = d.amin(-1, keepdim=True).expand(*d.shape[:-1], n - 1) - 4 - math.log(n)
        hi = d.amax(-1, keepdim=True).expand(*d.shape[:-1], n - 1) + 4 + math.log(n)
        for _ in range(30):
            mid = (lo + hi) / 2
            more = Fn(d.unsqueeze(-2) - mid.unsqueeze(-1)).sum(-1) > want
            lo, hi = torch.where(more, mid, lo), torch.where(more, hi, mid)
        t = (lo + hi) / 2
        slope = fn(d.unsqueeze(-2) - t.unsqueeze(-1))
        slope = slope / slope.sum(-1, keepdim=True).clamp(min=1e-30)   # softmax-like weights
    # one differentiable step: dt/ds_i = f_i / sum f
    t = t + (slope * (s.unsqueeze(-2) - d.unsqueeze(-2))).sum(-1)
    above = Fn(s.unsqueeze(-2) - t.unsqueeze(-1))
    above = F.pad(F.pad(above, (0, 0, 0, 1), value=1.0), (0, 0, 1, 0))
    return above.diff(dim=-2)

def neural_sort(scores, tau):
    n = scores.shape[-1]
    apart = (scores.unsqueeze(-1) - scores.unsqueeze(-2)).abs().sum(-1)
    scale = n + 1 - 2 * torch.arange(1, n + 1, device=scores.device, dtype=scores.dtype)
    return torch.softmax((scale.unsqueeze(-1) * scores.unsqueeze(-2) - apart.unsqueeze(-2)) / tau, -1)
def soft_sort(scores, tau):
    o = scores.sort(dim=-1, descending=True).values
    return torch.softmax(-(o.unsqueeze(-1) - scores.unsqueeze(-2)).abs() / tau, -1)

def diffsort_perm(scores, steepness, distribution, _c={}):
    from diffsort import DiffSortNet
    key = (scores.shape[-1], steepness, distribution)
    if key not in _c: _c[key] = DiffSortNet("odd_even", scores.shape[-1], steepness=steepness, distribution=distribution, device=str(scores.device))
    return _c[key](-scores)[1].mT

def bce(P, values):
    true = F.one_hot(values.argsort(dim=-1, descending=True), values.shape[-1]).float()
    return F.binary_cross_entropy(P.clamp(0, 1), true)
def nll(P, values):
    return -P.gather(-1, values.argsort(dim=-1, descending=True).unsqueeze(-1)).clamp(min=1e-20).log().mean()

def ranknet(scores, values):
    hi = values.unsqueeze(-1) > values.unsqueeze(-2)
    d = scores.unsqueeze(-1) - scores.unsqueeze(-2)
    return (F.softplus(-d) * hi).sum() / hi.sum().clamp(min=1)
def list_mle(scores, values):
    o = scores.gather(-1, values.argsort(dim=-1, descending=True))
    return (o.flip(-1).logcumsumexp(-1).flip(-1) - o).mean()
def spearman(scores, values, softness):
    r = laplace_F((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / softness).sum(-1) + .5
    t = values.argsort(-1, descending=True).argsort(-1).float() + 1
    return ((r - t) ** 2).mean()
def mse_log(scores, values):  # a usual loss: regression on the value
    return ((scores - values / 9999) ** 2).mean()

WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
def methods():
    found = {}
    for lname, l in (("bce", bce), ("nll", nll)):
        for kind in ("laplace", "logistic"):
            found[f"{kind} {lname}"] = {w: (lambda s, v, w=w, kind=kind, l=l: l(soft_perm(s, w, kind), v)) for w in WIDTHS}
        found[f"neural_sort {lname}"] = {w: (lambda s, v, w=w, l=l: l(neural_sort(s, w), v)) for w in (*WIDTHS, 10.0)}
        found[f"soft_sort {lname}"] = {w: (lambda s, v, w=w, l=l: l(soft_sort(s, w), v)) for w in WIDTHS}
        for dist in ("cauchy", "optimal", "logistic"):
            found[f"diffsort_{dist} {lname}"] = {w: (lambda s, v, w=w, dist=dist, l=l: l(diffsort_perm(s, 1 / w, dist), v)) for w in WIDTHS}
    found["ranknet"] = {0.0: ranknet}
    found["list_mle"] = {0.0: list_mle}
    found["spearman"] = {w: partial(spearman, softness=w) for w in WIDTHS}
    found["mse"] = {0.0: mse_log}
    return found

class Data:
    def __init__(self, path):
        z = np.load(path)
        self.split = {k: (torch.from_numpy(z[k + "_x"]).to(dev), torch.from_numpy(z[k + "_y"]).long().to(dev)) for k in ("train", "val", "test")}
    def draw(self, split, items, gen):
        x, y = self.split[split]
        rows = torch.randint(len(x), (items, LENGTH), generator=gen, device=dev)
        return x[rows].transpose(1, 2).flatten(2), (y[rows] * POW).sum(-1)

_EVAL = {}
@torch.no_grad()
def measured(net, data, n, split):
    key = (n, split)
    if key not in _EVAL:
        g = torch.Generator(dev).manual_seed(1234 + n)
        _EVAL[key] = data.draw(split, 10_000 // n * n, g)
    x, y = _EVAL[key]; net.eval()
    s = torch.cat([net(c) for c in x.split(2000)]).view(-1, n); y = y.view(-1, n)
    net.train()
    a, b = s.argsort(-1), y.argsort(-1)
    return {"EM": 100 * (a == b).all(-1).float().mean().item(), "EW": 100 * (a == b).float().mean().item()}

class Lane:
    """One method, setting and n: its step is captured once, its seeds are trained one after another."""
    def __init__(self, loss, data, n, sets, lr):
        self.data, self.n, self.sets, self.loss = data, n, sets, loss
        self.net = Network().to(dev).train()
        self.gen = torch.Generator(dev)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr, **({"capturable": True, "fused": True} if dev == "cuda" else {}))
        self.stream = torch.cuda.Stream() if dev == "cuda" else None
        self.bad = torch.zeros((), device=dev)
        if dev == "cuda":
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for _ in range(3): self.step()
            self.stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            self.graph.register_generator_state(self.gen)
            self.opt.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.step()
    def step(self):
        x, y = self.data.draw("train", self.sets * self.n, self.gen)
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(self.net(x).view(self.sets, self.n), y.view(self.sets, self.n))
        loss.backward(); self.opt.step(); self.last = loss.detach()
    def begin(self, seed):
        torch.manual_seed(1000 + seed)
        fresh = Network()
        with torch.no_grad():
            for p, q in zip(self.net.parameters(), fresh.parameters()): p.copy_(q)
            for st in self.opt.state.values():
                for v in st.values(): v.zero_()
        self.gen.manual_seed(seed)
    def advance(self, steps):
        if dev == "cuda":
            with torch.cuda.stream(self.stream):
                for _ in range(steps): self.graph.replay()
        else:
            for _ in range(steps): self.step()
    def sync(self):
        if dev == "cuda": self.stream.synchronize()

def run(jobs, data, *, n, sets, steps, seeds, out, lr=10 ** -3.5, width=8, every=None, splits=("val",), deadline=None, known=None):
    """Train jobs [(method, setting)] for seeds; append a line a seed."""
    for start in range(0, len(jobs), width):
        lanes = {}
        for method, setting in jobs[start:start + width]:
            try: lanes[method, setting] = Lane(known[method][setting], data, n, sets, lr)
            except Exception as e: print("LEFT OUT", method, setting, repr(e)[:300], flush=True)
        for seed in seeds:
            if deadline and time.time() > deadline: print("deadline", flush=True); return False
            t0 = time.time()
            for lane in lanes.values(): lane.sync(); lane.begin(seed)
            torch.cuda.synchronize() if dev == "cuda" else None
            best = {k: (-1, None, 0) for k in lanes}
            done = 0
            while done < steps:
                chunk = min(50, steps - done)
                for lane in lanes.values(): lane.advance(chunk)
                done += chunk
                if every and done % every == 0:
                    for k, lane in lanes.items():
                        lane.sync(); v = measured(lane.net, data, n, "val")
                        if v["EM"] > best[k][0]: best[k] = (v["EM"], measured(lane.net, data, n, "test"), done)
                    if done % (every * 5) == 0: print(done, {f"{k[0]} {k[1]}": (round(b[0], 2), round(b[1]["EM"], 2)) for k, b in best.items()}, f"{time.time() - t0:.0f} s", flush=True)
                    if deadline and time.time() > deadline: print("deadline at", done, flush=True); break
            for k, lane in lanes.items():
                lane.sync()
                line = {"method": k[0], "setting": k[1], "n": n, "seed": seed, "sets": sets, "steps": done, "loss": float(lane.last)}
                for split in splits: line[split] = measured(lane.net, data, n, split)
                if every: line["best_val_EM"], line["best_test"], line["best_step"] = best[k]
                with open(out, "a") as f: f.write(json.dumps(line) + "\n")
            print(f"n={n} seed={seed} {len(lanes)} lanes {time.time() - t0:.1f} s", {f"{k[0]} {k[1]}": None for k in []}, flush=True)
        del lanes
        torch.cuda.empty_cache() if dev == "cuda" else None
    return True


if __name__ == "__main__":
    import collections
    data, known = Data(sys.argv[1]), methods()
    run([(m, s) for m, d in known.items() for s in d], data, n=5, sets=10, steps=1500, seeds=[101, 102, 103], out="tune.jsonl", known=known, width=8)
    tried = collections.defaultdict(list)
    for line in open("tune.jsonl"):
        j = json.loads(line); tried[j["method"], j["setting"]].append(j["val"]["EM"])
    jobs = [(m, max(d, key=lambda s: np.mean(tried[m, s]))) for m, d in known.items()]
    for n in (5, 3, 9, 15):
        run(jobs, data, n=n, sets=10, steps=1500, seeds=range(1, 11), out="ten.jsonl", known=known, width=9, splits=("val", "test"))
