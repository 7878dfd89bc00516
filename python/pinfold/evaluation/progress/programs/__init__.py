"""The programs of the table: one file for programs of a kind. A new one is an entry in the tuple of its file."""

from pinfold.evaluation.progress.program import Program
from pinfold.evaluation.progress.programs.compressors import READERS
from pinfold.evaluation.progress.programs.computing import COMPUTING
from pinfold.evaluation.progress.programs.media import MEDIA
from pinfold.evaluation.progress.programs.servers import SERVERS
from pinfold.evaluation.progress.programs.services import SERVICES

PROGRAMS: tuple[Program, ...] = (*READERS, *MEDIA, *SERVERS, *SERVICES, *COMPUTING)
