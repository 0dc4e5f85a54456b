"""Law YAML: written by hand for speed and stable bytes (D31, D32, D34), read back with a hardened loader.

``scalars`` quotes, ``wrap`` fills lines, ``blocks`` chooses how a text is written, ``document`` lays out a law, ``status``
the status file beside it, ``files`` says where both stand, ``read`` loads them again.
"""

from protocols.lawyaml.document import dump_law as dump_law
from protocols.lawyaml.files import law_file as law_file
from protocols.lawyaml.files import status_file as status_file
from protocols.lawyaml.read import UnreadableLaw as UnreadableLaw
from protocols.lawyaml.read import load_law as load_law
from protocols.lawyaml.read import load_yaml as load_yaml
from protocols.lawyaml.status import LawStatus as LawStatus
from protocols.lawyaml.status import dump_status as dump_status
