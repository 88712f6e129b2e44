# task: layernorm
#
# Settings are a frozen dataclass; the work is in a helper.

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    affine: bool = True


def normalise(x: torch.Tensor, norm: nn.LayerNorm, settings: Settings = Settings()) -> torch.Tensor:
    assert x.dim() == 2, "rows and features"
    return kit.layernorm(x.contiguous(), norm.weight, norm.bias, settings.affine)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normalise(x, self.norm)
