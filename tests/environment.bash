# What the tests' own tools need of their surroundings; sourced by all that are bash. The programs keep
# the rest as the user has it: see tests/surroundings.
unset CDPATH
unset POSIXLY_CORRECT # bats and these scripts are bash's own language
set +o posix
unset OPENBLAS_VERBOSE # lines of the library in the standard error that is compared
export LC_ALL=C # od, awk and bash write 0,5 elsewhere

# Sockets lie in the tests' directories, and have 108 bytes for their names; job files, lists of sockets
# and socat have blanks and commas between names.
export TMPDIR=${TMPDIR:-/tmp}
if [[ ${#TMPDIR} -gt 50 || $TMPDIR == *[!A-Za-z0-9./_-]* || ! -w $TMPDIR ]]; then TMPDIR=/tmp; fi
