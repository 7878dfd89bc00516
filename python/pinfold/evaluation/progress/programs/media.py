"""Encoders, converters and renderers of pictures."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pinfold.evaluation.progress.figures import Figure, Made, Written, grown
from pinfold.evaluation.progress.program import Program, path_of
from pinfold.evaluation.progress.quota import Group

PICTURES = 3000
"""More than an image converter converts in a minute."""


class Encoder(Program):
    """FFmpeg, which reads a film again and again and encodes it."""

    kind = "encoder"
    figure_is = "frames, by `-progress`"
    needs = ("ffmpeg",)

    def __init__(self, codec: str, *options: str) -> None:
        """Name its codec, with options."""
        self._codec, self._options = codec, options
        self.name = f"ffmpeg, {codec}"

    def prepare(self, folder: Path) -> None:
        """Make a film of ten seconds."""
        film = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25,noise=alls=12:allf=t", "-t", "10"]
        words = [path_of("ffmpeg"), "-v", "error", "-y", *film, "-c:v", "mpeg4", "-q:v", "4", str(folder / "film.avi")]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)

    def clear(self, folder: Path) -> None:
        """Remove the progress of an earlier run."""
        (folder / "progress").unlink(missing_ok=True)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        frames = [] if amount is None else ["-frames:v", str(amount)]
        return [
            *(path_of("ffmpeg"), "-v", "error", "-nostdin", "-y", "-stats_period", "0.1"),
            *("-progress", str(folder / "progress"), "-stream_loop", "-1", "-i", str(folder / "film.avi")),
            *("-c:v", self._codec, *self._options, *frames, "-g", "25", "-f", "mpegts", "/dev/null"),
        ]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of frames."""
        del group
        return Written(folder, "progress", grown(r"^frame=\s*(\d+)"))


class Converter(Program):
    """ImageMagick, which makes a smaller picture of each of many."""

    name = "ImageMagick"
    kind = "converter"
    figure_is = "pictures made"
    needs = ("mogrify", "convert")

    def prepare(self, folder: Path) -> None:
        """Make a picture with many names."""
        (folder / "in").mkdir()
        first = folder / "in" / "0.jpg"
        subprocess.run([path_of("convert"), "-size", "400x300", "plasma:", str(first)], check=True)
        for number in range(1, PICTURES):
            (folder / "in" / f"{number}.jpg").hardlink_to(first)

    def clear(self, folder: Path) -> None:
        """Remove the pictures that an earlier run made."""
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").mkdir()

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        pictures = [str(folder / "in" / f"{number}.jpg") for number in range(PICTURES if amount is None else amount)]
        options = ["-path", str(folder / "out"), "-format", "png", "-resize", "50%"]
        return [path_of("mogrify"), *options, *pictures]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of pictures."""
        del group
        return Made(folder / "out", ".png")


SCENE = """#version 3.7;
global_settings { assumed_gamma 1 }
camera { location <0, 2, -5> look_at 0 }
light_source { <4, 8, -6> rgb 1 area_light <2, 0, 0>, <0, 2, 0>, 4, 4 }
plane { y, -1 pigment { checker rgb 0.2, rgb 0.9 } finish { reflection 0.2 } }
#for (X, -20, 20)
  #for (Y, -20, 20)
    sphere { <X / 4, Y / 4, 0> 0.12 pigment { rgb <0.9, 0.5, 0.2> } finish { phong 1 reflection 0.3 } }
  #end
#end
"""
WIDTH = 640


class Renderer(Program):
    """POV-Ray, which renders a picture of thousands of lines."""

    name = "POV-Ray"
    kind = "renderer"
    figure_is = "pixels, as it prints them"
    needs = ("povray",)

    def prepare(self, folder: Path) -> None:
        """Write the scene."""
        (folder / "scene.pov").write_text(SCENE)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        height = 40_000 if amount is None else max(amount // WIDTH, 1)
        return [
            *(path_of("povray"), f"+I{folder / 'scene.pov'}", f"+O{folder / 'scene.ppm'}", "+FP", "+WT2", "-D"),
            *("+A0.1", "+BS16"),
            *(f"+W{WIDTH}", f"+H{height}"),
        ]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of pixels."""
        del group
        return Written(folder, "errors", grown(r"Rendered (\d+) of \d+ pixels"))


MEDIA: tuple[Program, ...] = (
    Encoder("libx264", "-preset", "veryfast", "-threads", "2"),
    Encoder("mpeg2video", "-q:v", "3"),
    Converter(),
    Renderer(),
)
