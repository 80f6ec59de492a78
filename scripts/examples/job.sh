#!/bin/bash
# job.sh [DIR [SOLUTION]]: a whole job without trainctl. Each program of the kit does one thing, and this
# shell puts them together. Everything lies in DIR (by-hand). w1 is a straggler; the solution (antdt-nd)
# gives it less to do. Kill any of them meanwhile (kill -9): it comes back, and each row still counts
# eight times. At the end it prints the AUC on the test file.
set -eu
PATH=$PATH:$(trainctl --exec-path) # paceline-worker(1)
for program in shardd socat; do command -v $program >/dev/null || { echo "job.sh: no $program on PATH" >&2; exit 69; }; done
here=$(dirname "$(readlink -f "$0")") solution=${2:-antdt-nd} incarnation=1 cuts=0 latest=
mkdir -p "${1:-by-hand}" && cd "${1:-by-hand}" && rm -rf cut journal ./*.sock ./*.log
"$here/make-shop" .
{ # what the columns mean: paceline-schema(5)
	echo 'schema version=1 format=csv hash-bits=16 fitted=1 label=bought positive=yes'
	printf 'dense name=%s mean=2 deviation=1\n' age pages minutes spent_before
	printf 'sparse name=%s\n' source device city weekday
	echo end
} >schema
{ # which parameters there are
	echo 'layout version=1 seed=1'
	echo 'tensor name=bias rows=1 cols=1 init=zero scale=0'
	echo 'tensor name=dense.weight rows=4 cols=1 init=zero scale=0'
	echo 'table name=keys width=1 rows=65536 zero-columns=1 scale=0'
} >layout
echo 'model version=1 name=lr dense-inputs=4 fields=4 embed=1 hidden= hash-bits=16 l2=0 seed=1 samples=20000' >model

nodes="shardd bpt-monitor ps0 w0 w1 w2"
declare -A pid
trap 'kill "${pid[@]}" 2>/dev/null' EXIT
start() { # NODE
	case $1 in
	shardd) shardd -s shardd.sock -j journal -n 20000 -b 300 -m 4 -e 8 --shuffle samples --settle-only --retries 0 & ;;
	bpt-monitor) bpt-monitor -s bpt-monitor.sock --short 3 --long 6 & ;;
	ps0) ps-server -s ps0.sock --id ps0 --layout layout --include schema --include layout --include model \
		--shards shardd.sock --monitor bpt-monitor.sock --incarnation "$incarnation" \
		${latest:+--restore "$latest"} & ;;
	w*) worker --id "$1" --shards shardd.sock --servers ps0.sock --monitor bpt-monitor.sock --batch 100 \
		--schema schema --model-file model --data shop-train.csv --drag "$1.drag" & ;;
	esac 2>>"$1.log"
	pid[$1]=$!
}
ask() { # NODE LINE [PAYLOAD]: its answer
	printf '%s\n%s' "$2" "${3-}" | socat -t 60 - "UNIX-CONNECT:$1.sock,retry=20,interval=0.1" | sed 1d
}
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

# A dead worker's rows are handed out again, however often (--retries 0); a dead server takes all back to
# the last cut. Others go on.
back() { # NODE: 1: not yet
	local now
	echo "job.sh: $1 has died and comes back" >&2
	case $1 in
	w*) now=$(ask shardd "who worker=$1" | field generation)
		ask ps0 "fence worker=$1 generation=$now" && ask shardd "fail worker=$1" ;;
	ps0) now=$(ask shardd "load file=$PWD/$latest/shards" | field incarnation)
		[ -n "$now" ] && incarnation=$now ;;
	esac >/dev/null || return 1
	start "$1"
}
cut() {
	cuts=$((cuts + 1))
	ask ps0 "cut path=cut/$cuts" | grep -q '^ok' && latest=cut/$cuts
}

echo 'drag speed=6000' | tee w0.drag >w2.drag # samples per second
echo 'drag speed=1500' >w1.drag
for node in shardd bpt-monitor ps0; do start "$node"; done
cut
for node in w0 w1 w2; do start "$node"; done
until ask shardd stat | grep -q ' todo=0 doing=0 '; do
	sleep 1
	for node in $nodes; do kill -0 "${pid[$node]}" 2>/dev/null || back "$node" || continue 2; done
	cut || continue
	actions=$(ask bpt-monitor snapshot | trainctl solve "$solution" -o batch=300 | grep -v kind=none) || continue
	echo "$actions"
	for node in $(grep kind=kill-restart <<<"$actions" | field id); do kill -9 "${pid[$node]}"; done
	actions=$(grep -v kind=kill-restart <<<"$actions") || continue
	ask ps0 "act bytes=$((${#actions} + 1))" "$actions"$'\n'
done
cut
ask ps0 finish >/dev/null
wait "${pid[w0]}" "${pid[w1]}" "${pid[w2]}"
ask shardd stat | head -n 1
predict -c "$latest" shop-test.csv | auc
