"""The table of fuzz targets: every function that reads bytes or text of strangers, by subject."""

from bench.fuzz.file_targets import FILES
from bench.fuzz.mail_targets import AUTHENTICATION, MAIL
from bench.fuzz.service_targets import SERVICE
from bench.fuzz.target import Target

TARGETS: tuple[Target, ...] = (*MAIL, *FILES, *AUTHENTICATION, *SERVICE)
