# deps; make install, uninstall, dist and deb; the units, each started once by a systemd of its own
# (tests/guest) where there can be one, else looked at; completion of bash and zsh.
load helper

setup_more() {
	BIN=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}
	export PREFIX=/usr/local DESTDIR=
	unset MAKEFLAGS MFLAGS MAKELEVEL # of a make that runs the tests
	cd "$PACELINE_ROOT" || return 1
}

# built: $T/build as make leaves it, with the programs that are tested. What TAB offers is made once for all tests.
built() {
	local made=$BATS_FILE_TMPDIR/completion name
	if [ ! -d "$made" ]; then
		mkdir "$made.new"
		for name in paceline _paceline; do
			scripts/completion/tables "$BIN" "scripts/completion/$name.in" >"$made.new/$name"
		done
		mv "$made.new" "$made"
	fi
	mkdir -p "$T/build"
	ln -sfn "$BIN" "$T/build/bin"
	cp -r "$made" "$T/build/completion"
}

installed() { # everything below $DESTDIR$PREFIX with its mode
	(cd "$DESTDIR$PREFIX" && find . -printf '%P %y %m\n' | sort)
}

# ---- what is missing ----

# The programs that deps asks, instead of this machine's own: munge is missing, and we are root.
@test "deps: packages are installed with nothing of the caller's environment but the way to the mirror" {
	mkdir "$T/stub"
	printf '#!/bin/sh\necho 0\n' >"$T/stub/id"
	printf '#!/bin/sh\ncase $* in *munge) ;; *) echo installed ;; esac\n' >"$T/stub/dpkg-query"
	printf '#!/bin/sh\necho "$@" >>"%s"\nenv >"%s"\n' "$T/asked" "$T/env" >"$T/stub/apt-get"
	chmod +x "$T/stub/"*
	mkdir "$T/with blanks"
	run -0 env PATH="$T/stub:$PATH" POSIXLY_CORRECT=1 TMPDIR="$T/with blanks" LC_ALL=xx_XX.UTF-8 \
		https_proxy='http://mirror:3128/ a b' scripts/deps check
	[ "$output" = "deps: installing munge" ]
	diff "$T/asked" <(printf '%s\n' update 'install -y --no-install-recommends munge')
	grep -qx 'https_proxy=http://mirror:3128/ a b' "$T/env"
	grep -qx 'DEBIAN_FRONTEND=noninteractive' "$T/env"
	[ "$(grep -cE '^(POSIXLY_CORRECT|TMPDIR)=|xx_XX' "$T/env")" = 0 ]
}

# ---- install, uninstall ----

@test "install: PREFIX stands in units, crontab and scripts; modes do not depend on the umask" {
	built
	PREFIX=/opt/pace
	local mask
	for mask in 022 077 000; do
		DESTDIR=$T/d$mask
		(umask $mask && scripts/install "$T/build")
		installed >"$T/list$mask"
	done
	diff "$T/list022" "$T/list077"
	diff "$T/list022" "$T/list000"
	grep -q '^bin/trainctl f 755$' "$T/list022"
	grep -q '^share/man/man7/paceline-systemd.7 f 644$' "$T/list022"
	grep -q '^share/paceline/systemd/nightly f 755$' "$T/list022"
	not grep -vE ' (d 755|f 755|f 644|l 777)$' "$T/list022"
	cd "$DESTDIR$PREFIX"
	grep -q '^ExecStart=/opt/pace/bin/trainctl run ' lib/systemd/system/trainctl@.service
	grep -q '^PATH=/opt/pace/bin:' share/paceline/cron/paceline.cron
	grep -q '^FEED=/opt/pace/share/paceline/cron$' share/paceline/cron/paceline.cron
	not grep -rE '/usr/local/(bin|share)' lib share/paceline share/systemd
	not grep -rE '@[A-Z]+@' lib share/paceline share/systemd share/bash-completion share/zsh
	# A user's service manager can't do these.
	not grep -rE '^(User|Protect|Capability|PrivateDevices)' share/systemd/user
	[ "$(ls bin)" = "$(typed)" ]
	[ "$(ls libexec/paceline)" = "$(ls "$BIN" | grep -xFf "$PACELINE_ROOT/scripts/libexec")" ]
	for page in "$PACELINE_ROOT"/man/*.[1-8]; do
		[ -e "share/man/man${page##*.}/${page##*/}" ]
	done
}

# bats test_tags=long
@test "install: without Open MPI there is no fabricd, and all the rest" {
	built
	DESTDIR=$T/d
	cp -rL "$T/build/bin" "$T/bin" && rm -f "$T/bin/fabricd"
	mkdir "$T/build2"
	cp -rL "$T/build/completion" "$T/build2"
	mv "$T/bin" "$T/build2/bin"
	scripts/install "$T/build2"
	[ ! -e "$DESTDIR$PREFIX/libexec/paceline/fabricd" ]
	[ -x "$DESTDIR$PREFIX/libexec/paceline/worker" ]
	[ -e "$DESTDIR$PREFIX/share/man/man8/fabricd.8" ]
}

@test "install: the models' plug-in lies beside the worker, where it was built" {
	built
	DESTDIR=$T/out
	mkdir "$T/build/cuda"
	echo plug-in >"$T/build/cuda/model-cuda.so"
	run -0 scripts/install "$T/build"
	[ "$(stat -c %a "$DESTDIR$PREFIX/libexec/paceline/model-cuda.so")" = 644 ]
	[ -x "$DESTDIR$PREFIX/libexec/paceline/worker" ]
	run -0 scripts/install --remove
	[ ! -e "$DESTDIR$PREFIX/libexec/paceline/model-cuda.so" ]
}

@test "install: the programs find each other in both directories, whatever PATH finds" {
	built
	PREFIX=$T/p
	run -0 scripts/install "$T/build"
	[[ ${lines[0]} == "installed in $T/p: "*" files; man paceline-tutorial says how to begin" ]]
	[ "${lines[1]}" = "$T/p/bin is not in PATH; this puts it there, for man too: export PATH=$T/p/bin:\$PATH" ]
	PATH=$T/p/bin:$PATH run -0 scripts/install "$T/build"
	[ "${#lines[@]}" = 1 ]
	mkdir "$T/other"
	for program in worker node-host shardd; do printf '#!/bin/sh\nexit 99\n' >"$T/other/$program"; done
	cp "$T/other/worker" "$PREFIX/bin" # of another package
	chmod +x "$T/other/"* "$PREFIX/bin/worker"
	[ "$("$PREFIX/bin/trainctl" --exec-path)" = "$PREFIX/libexec/paceline" ]
	[ "$("$BIN/trainctl" --exec-path)" = "$(readlink -f "$BIN")" ]
	run -0 env PATH="$T/other:$PREFIX/bin:/usr/bin:/bin" tests/smoke
	# On another host it is node-host that looks.
	PATH=$T/other:$PATH run "$PREFIX/libexec/paceline/node-host" --serve <<<$'program name=shardd\nprogram name=worker'
	[[ $output == *"ok path=$PREFIX/bin/shardd"*"ok path=$PREFIX/libexec/paceline/worker"* ]]
}

@test "uninstall: what install put there, and nothing else" {
	built
	DESTDIR=$T/d
	mkdir -p "$DESTDIR$PREFIX/share/man/man1" "$DESTDIR$PREFIX/bin"
	touch "$DESTDIR$PREFIX/bin/other"
	installed >"$T/before"
	scripts/install "$T/build"
	touch "$DESTDIR$PREFIX/share/paceline/examples/mine.awk"
	make -s uninstall DESTDIR="$DESTDIR" PREFIX="$PREFIX"
	installed >"$T/after"
	{
		cat "$T/before"
		echo 'share/paceline d 755'
		echo 'share/paceline/examples d 755'
		echo 'share/paceline/examples/mine.awk f 644'
	} | sort | sed 's/ d [0-9]*$/ d/; s/ f [0-9]*$/ f/' >"$T/expected"
	sed 's/ d [0-9]*$/ d/; s/ f [0-9]*$/ f/' "$T/after" | diff "$T/expected" -
	run -1 scripts/install --remove
	[[ $output == *"share/paceline/installed: not there: nothing was installed by make install PREFIX=/usr/local" ]]
	# A directory that was made for it goes, too.
	DESTDIR=$T/new
	scripts/install "$T/build"
	scripts/install --remove
	[ ! -e "$T/new/usr/local" ]
}

@test "install again: what an older version had more is taken away" {
	built
	DESTDIR=$T/d
	scripts/install "$T/build"
	touch "$DESTDIR$PREFIX/bin/gone"
	echo 'file bin/gone' >>"$DESTDIR$PREFIX/share/paceline/installed"
	scripts/install "$T/build"
	[ ! -e "$DESTDIR$PREFIX/bin/gone" ]
	echo 'file ../../etc/passwd' >>"$DESTDIR$PREFIX/share/paceline/installed"
	run -65 scripts/install --remove
	[[ $output == *"share/paceline/installed: damaged"* ]]
	[ -e "$DESTDIR$PREFIX/bin/trainctl" ]
}

@test "install: a PREFIX that can't stand in a unit is refused" {
	built
	for PREFIX in relative '/a b' '/a%b' /a/../b; do
		run -64 scripts/install "$T/build"
		[[ $output == "install: PREFIX=$PREFIX: "* ]]
	done
}

# ---- units, without a systemd ----

@test "units: nothing that systemd does not know, and little that they may do" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze here"
	built
	PREFIX=$T/p scripts/install "$T/build"
	mkdir "$T/units" "$T/user"
	local unit manager least
	for unit in "$T"/p/lib/systemd/system/*@.*; do cp "$unit" "$T/units/$(basename "${unit/@./@a.}")"; done
	for unit in "$T"/p/share/systemd/user/*@.*; do cp "$unit" "$T/user/$(basename "${unit/@./@a.}")"; done
	systemd-analyze verify --man=no "$T"/units/*@a.* >"$T/said" 2>&1 || true
	not grep -F "$T/units" "$T/said"
	not grep -E '(shardd|monitor|trainctl|paceline)[a-z-]*@' "$T/said"
	# The drop-in for a job on several hosts.
	mkdir "$T/hosts" "$T/hosts/trainctl@a.service.d"
	cp "$T/units/trainctl@a.service" "$T/hosts"
	cp "$T/p/share/paceline/systemd/hosts.conf" "$T/hosts/trainctl@a.service.d"
	systemd-analyze verify --man=no "$T/hosts/trainctl@a.service" >"$T/said" 2>&1 || true
	not grep -F hosts.conf "$T/said"
	systemd-analyze security --offline=true --threshold=100 --json=short "$T/hosts/trainctl@a.service" >"$T/said"
	jq -e '.[] | select(.json_field == "IPAddressDeny") | .set == false' "$T/said"
	for unit in shardd:5 bpt-monitor:5 trainctl:15 paceline-nightly:15 paceline-alert:30; do
		least=${unit#*:}
		systemd-analyze security --offline=true --threshold="$least" "$T/units/${unit%:*}@a.service" >"$T/said" ||
			{ grep -E '✗|Overall' "$T/said"; false; }
	done
}

# ---- units, started by a systemd ----

# guest [USER] < script: runs it in a machine of its own with Paceline in /usr/local.
guest() {
	mkdir -p "$T/guest/root"
	DESTDIR=$T/guest/root scripts/install "$T/build" >/dev/null
	{
		cat <<-'S'
			set -e
			trap 'echo "line $LINENO: $BASH_COMMAND"; journalctl --no-pager -o cat _TRANSPORT=stdout + _TRANSPORT=journal + _TRANSPORT=syslog | tail -n 60' ERR
			wait_for() {
				for i in $(seq 600); do
					if eval "$1"; then return 0; fi
					sleep 0.1
				done
				echo "waited in vain for: $1"
				false
			}
			data() { # ROWS
				awk -v rows="$1" 'BEGIN { print "y,a,b"; srand(3); for (i = 0; i < rows; i++) {
					a = int(100 * rand()); print (a + 40 * rand() > 70 ? 1 : 0) "," a ",c" i % 7 } }'
			}
		S
		cat
	} >"$T/guest/script"
	status=0
	tests/guest "$T/guest" "$T/guest/script" >"$T/guest.said" 2>"$T/guest.err" || status=$?
	[ "$status" != 77 ] || skip "$(tail -n 1 "$T/guest.err")"
	cat "$T/guest.said" "$T/guest.err"
	[ "$status" = 0 ]
}

@test "systemd: shardd and bpt-monitor by their sockets, killed and there again" {
	built
	guest <<'S'
systemd-sysusers 2>&1
mkdir /etc/paceline
echo 'SHARDD_OPTIONS="-n 100 -b 10 -m 1"' >/etc/paceline/ads.shardd
systemctl daemon-reload
systemctl enable --now shardd@ads.socket bpt-monitor@ads.socket
[ "$(systemctl is-active shardd@ads.service)" = inactive ]
ask() { # SOCKET LINE...
	local socket=$1
	shift
	printf '%s\n' "$@" | runuser -u paceline -- socat -t 300 - UNIX-CONNECT:/run/paceline/ads/"$socket"
}
ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' | grep '^shard id=0 epoch=0 begin=0 length=10 '
[ "$(systemctl is-active shardd@ads.service)" = active ]
systemctl kill -s KILL shardd@ads.service
# The socket is systemd's, the journal has what was handed out.
ask shardd.sock 'hello worker=w0 generation=1' | grep '^shard id=0 '
ask shardd.sock 'hello worker=w1' 'get worker=w1 generation=1' | grep '^shard id=1 '
wait_for '[ "$(systemctl is-active shardd@ads.service)" = active ]'
# Root may, too; others may not.
echo 'hello worker=w2' | socat -t 300 - UNIX-CONNECT:/run/paceline/ads/shardd.sock | grep ^ok
if runuser -u nobody -- socat -t 300 - UNIX-CONNECT:/run/paceline/ads/shardd.sock <<<'hello worker=w3'; then false; fi
ask bpt-monitor.sock 'info name=pending value=3' | grep '^ok'
[ "$(systemctl is-active bpt-monitor@ads.service)" = active ]
wait_for 'grep -qs ^paceline_ /var/lib/paceline/ads/bpt.prom'
systemctl reload bpt-monitor@ads.service
ask bpt-monitor.sock snapshot | grep '^info name=pending value=3 '
[ "$(stat -c '%U %a' /var/lib/paceline/ads/journal)" = 'paceline 700' ]
# They keep the watchdog content: none was killed by it.
systemctl show -p WatchdogUSec --value shardd@ads.service | grep 30s
systemctl stop shardd@ads.service bpt-monitor@ads.service
[ -S /run/paceline/ads/shardd.sock ]
# Options that can't be: no restart would cure them, and somebody is told.
printf '#!/bin/sh\ncat >"/run/alert.$1"\n' >/etc/paceline/alert
chmod +x /etc/paceline/alert
echo 'SHARDD_OPTIONS=--no-such-option' >/etc/paceline/bad.shardd
systemctl start shardd@bad.socket
socat -u /dev/null UNIX-CONNECT:/run/paceline/bad/shardd.sock
wait_for '[ -s /run/alert.shardd@bad.service ]'
grep "shardd@bad.service failed on" /run/alert.shardd@bad.service
grep "unknown option.*--no-such-option" /run/alert.shardd@bad.service
[ "$(systemctl show -p NRestarts --value shardd@bad.service)" = 0 ]
S
}

@test "systemd: a job whose trainctl is killed goes on with the same nodes; stop, start, done" {
	built
	guest <<'S'
systemd-sysusers 2>&1
mkdir -p /etc/paceline/drag
data 2000 >/etc/paceline/d.csv
printf '%s\n' JOB=tiny DATA=d.csv LABEL=y DENSE=a SPARSE=b BATCH=64,shard:4 EPOCHS=50 \
	DRAG=drag >/etc/paceline/tiny.env
for w in w0 w1; do echo 'drag speed=500' >/etc/paceline/drag/$w; done
systemctl daemon-reload
systemctl start trainctl@tiny
status() { XDG_STATE_HOME=/var/lib trainctl status -j tiny 2>/dev/null; }
done_samples() { status | sed -n 's/^job .* samples-done=\([0-9]*\).*/\1/p'; }
pid_of() { status | sed -n "s/^node .*id=$1 .*pid=\([0-9]*\).*/\1/p"; }
wait_for '[ "$(done_samples)" -gt 100 ] 2>/dev/null'
worker=$(pid_of w0)
kill -9 "$(systemctl show -p MainPID --value trainctl@tiny)"
wait_for '[ "$(systemctl show -p NRestarts --value trainctl@tiny)" = 1 ]'
wait_for '[ "$(pid_of w0)" = "$worker" ]'
[ "$(ps -o user= -p "$worker")" = paceline ]
systemctl stop trainctl@tiny
[ "$(systemctl show -p Result --value trainctl@tiny)" = success ]
if kill -0 "$worker" 2>/dev/null; then false; fi
grep -q '^summary .* state=stopped ' <(journalctl -u trainctl@tiny -o cat)
rm /etc/paceline/drag/*
systemctl start trainctl@tiny
wait_for '[ "$(systemctl is-active trainctl@tiny)" = inactive ]'
[ "$(systemctl show -p Result --value trainctl@tiny)" = success ]
grep -q '^summary .* state=done .* samples=100000 ' /var/lib/paceline/tiny/summary
# Done is done, not failed.
systemctl start trainctl@tiny
wait_for '[ "$(systemctl is-active trainctl@tiny)" = inactive ]'
[ "$(systemctl show -p Result --value trainctl@tiny)" = success ]
# A key that is none: at once a failure.
echo WORKRES=3 >>/etc/paceline/tiny.env
systemctl start trainctl@tiny
wait_for '[ "$(systemctl is-active trainctl@tiny)" = failed ]'
[ "$(systemctl show -p NRestarts --value trainctl@tiny)" = 0 ]
S
}

# commands SECTION: what paceline-systemd(7) tells a user to type there.
commands() {
	awk -v section="$1" '
	/^\.S[sh] / { on = substr($0, 5) == section }
	on && /^\$ / { gsub(/\\\(aq/, "\047"); gsub(/\\-/, "-"); gsub(/\\&/, ""); gsub(/\\e/, "\\"); print substr($0, 3) }
	' man/paceline-systemd.7
}

@test "systemd: each night, as the page says it, for a user; the alert of a bad model" {
	built
	commands 'Each night' >"$T/nightly"
	[ "$(wc -l <"$T/nightly")" -ge 10 ]
	mkdir "$T/guest"
	cat >"$T/guest/user" <<-'S'
		set -e
		trap 'echo "line $LINENO: $BASH_COMMAND"' ERR
		cd ~
		data 2000 >clicks.csv
		data 300 >test.csv
		printf '%s\n' JOB=clicks DATA=clicks.csv TEST=test.csv LABEL=y DENSE=a SPARSE=b BATCH=100 EPOCHS=3 >clicks.env
	S
	cat "$T/nightly" - >>"$T/guest/user" <<-'S'
		state=$HOME/.local/state/paceline
		tonight=$(readlink $state/clicks.current)
		[[ $tonight == clicks.20??-??-?? ]]
		grep -q '^summary job=clicks.20.* state=done .* samples=6000 ' $state/$tonight/summary
		[ "$(ckpt list $state/$tonight/checkpoints | grep -c state=complete)" = 1 ]
		systemctl --user list-timers | grep paceline-nightly@clicks.timer
		# The same night again: nothing new. Seven nights stay, and the current one.
		for day in 01 02 03 04 05 06 07 08; do mkdir $state/clicks.2001-01-$day; done
		mkdir $state/clickser.2001-01-01
		systemctl --user start paceline-nightly@clicks
		[ "$(readlink $state/clicks.current)" = "$tonight" ]
		[ "$(ls -d $state/clicks.20* | wc -l)" = 7 ]
		[ -d $state/clicks.2001-01-08 ]
		[ ! -d $state/clicks.2001-01-02 ]
		[ -d $state/clickser.2001-01-01 ]
		# A model that is too bad: the current one stays, and somebody is told.
		rm -r $state/$tonight
		mkdir $state/clicks.2001-02-01
		ln -sfn clicks.2001-02-01 $state/clicks.current
		echo 'NIGHTLY_OPTIONS="-a 0.9999"' >~/.config/paceline/clicks.nightly
		printf '#!/bin/sh\ncat >~/"alert.$1"\n' >~/.config/paceline/alert
		chmod +x ~/.config/paceline/alert
		if systemctl --user start paceline-nightly@clicks; then false; fi
		wait_for '[ -s ~/alert.paceline-nightly@clicks.service ]'
		grep 'paceline-nightly@clicks.service failed on' ~/alert.paceline-nightly@clicks.service
		[ "$(readlink $state/clicks.current)" = clicks.2001-02-01 ]
		[ "$(systemctl --user show -p NRestarts --value paceline-nightly@clicks)" = 0 ]
		# The timer itself, sooner: the same night once more, with a model that is good enough.
		echo 'NIGHTLY_OPTIONS="-a 0.6 -w"' >~/.config/paceline/clicks.nightly
		mkdir -p ~/.config/systemd/user/paceline-nightly@clicks.timer.d
		printf '%s\n' '[Timer]' OnCalendar= OnActiveSec=1s AccuracySec=1us RandomizedDelaySec=0 \
			>~/.config/systemd/user/paceline-nightly@clicks.timer.d/soon.conf
		systemctl --user daemon-reload
		systemctl --user restart paceline-nightly@clicks.timer
		wait_for '[ "$(readlink $state/clicks.current)" = "$tonight" ]'
		wait_for '[ "$(systemctl --user is-active paceline-nightly@clicks)" = inactive ]'
		# A job of a user's, and the daemons.
		cp clicks.env ~/.config/paceline/again.env
		sed -i s/JOB=clicks/JOB=again/ ~/.config/paceline/again.env
		systemctl --user start trainctl@again
		wait_for '[ "$(systemctl --user is-active trainctl@again)" = inactive ]'
		grep -q ' state=done ' $state/again/summary
		echo 'SHARDD_OPTIONS="-n 100 -b 10 -m 1"' >~/.config/paceline/ads.shardd
		systemctl --user start shardd@ads.socket bpt-monitor@ads.socket
		echo 'hello worker=w0' | socat -t 300 - UNIX-CONNECT:$XDG_RUNTIME_DIR/paceline/ads/shardd.sock | grep ^ok
		echo snapshot | socat -t 300 - UNIX-CONNECT:$XDG_RUNTIME_DIR/paceline/ads/bpt-monitor.sock | grep ^ok
		systemctl --user is-active shardd@ads bpt-monitor@ads
	S
	guest <<S
useradd -m -u 4321 -s /bin/bash somebody
mkdir -p /run/user/4321
chown somebody: /run/user/4321
export -f data wait_for
systemd-run --quiet --unit=manager -p User=somebody -p Delegate=yes \
	-E XDG_RUNTIME_DIR=/run/user/4321 -E HOME=/home/somebody /lib/systemd/systemd --user --log-target=null
wait_for '[ -S /run/user/4321/systemd/private ]'
chmod o+rx "$T" "$T/guest"
runuser -u somebody -- env HOME=/home/somebody XDG_RUNTIME_DIR=/run/user/4321 bash "$T/guest/user"
S
}

@test "nightly without systemd: stopped and gone on with, a model that is too bad, one at a time" {
	local nightly=$PACELINE_ROOT/scripts/systemd/nightly base="$T/my states" night
	cd "$T"
	job EPOCHS=20 JOB=other
	slow 500
	printf '#!/bin/sh\nexec %s -d "%s" "$@"\n' "$nightly" "$base" >go
	chmod +x go
	start first ./go job.env
	wait_for 'ls "$base"/other.*/job.log'
	run -75 ./go job.env
	[[ $output == *"other: another one is at it" ]]
	wait_for 'grep -q "^row " first.out'
	night=$(basename "$base"/other.20*)
	kill -TERM "$PID"
	ended "$PID"
	[ "$status" = 143 ]
	grep -q "nightly: $night: trainctl ended with status 143; the current model stays" first.err
	[ ! -e "$base/other.current" ]
	rm drag/*
	# Scores need a TEST; what is done stays done. A night that changes nothing removes old ones, too.
	mkdir "$base"/other.2000-01-0{1,2,3} "$base/others.2000-01-01"
	ln -s other.2000-01-01 "$base/other.current"
	run -78 ./go -a 0.5 -k 2 job.env
	[ "$(ls -d "$base"/other.20* | xargs -d '\n' -n 1 basename | xargs)" = "other.2000-01-01 other.2000-01-03 $night" ]
	run -78 ./go -k 1 job.env --set SEED=2
	[ ! -e "$base/other.2000-01-03" ]
	[ -d "$base/others.2000-01-01" ]
	rm -r "$base/other.2000-01-01" "$base/other.current"
	run -78 ./go -a 0.5 job.env
	[[ $output == *"summary job=$night state=done "*"there is no auc to compare with -a auc=0.5"* ]]
	run -0 ./go job.env
	[ "$(readlink "$base/other.current")" = "$night" ]
	ckpt verify "$(ckpt latest "$base/other.current/checkpoints")"
	# From the current model on: the same night again is the same job.
	mv "$base/$night" "$base/other.2001-01-01"
	ln -sfn other.2001-01-01 "$base/other.current"
	run -0 ./go -w job.env
	grep -q "^INIT=.*other.2001-01-01" "$base/$night/job.env"
	run -0 ./go -w -k 1 job.env
	[[ $output == *"nightly: removed $base/other.2001-01-01" ]]
	[ "$(ls -d "$base"/other.2*)" = "$base/$night" ]
	# Of a loss less is better.
	rm -r "${base:?}/$night" "$base/other.current"
	run -1 ./go -a logloss=0.0001 job.env --set "TEST=$T/d.csv"
	[[ $output == *"logloss is 0."*", more than 0.0001; the current model stays" ]]
	run -0 ./go -a logloss=9 job.env --set "TEST=$T/d.csv"
	for wrong in '-k 0' '-a much' '-a auc=' '-a .' '-a 0.9.1' '-a f1=0.5' -x; do
		# shellcheck disable=SC2086
		run -64 ./go $wrong job.env
	done
	run -64 "$nightly"
	run -66 ./go none.env
	run -0 "$nightly" --help
	[[ $output == *"nightly [-k NIGHTS]"* ]]
}

# ---- the sources as one file, the package ----

# bats test_tags=long
@test "dist: the same bytes each time, and again from where it was unpacked" {
	git rev-parse --git-dir >/dev/null 2>&1 || [ -e debian/changelog ] || skip "no git here, and no unpacked dist"
	local version
	version=$(trainctl --version | sed 's/.* //')
	scripts/dist "$T/one" "$version"
	(umask 077 && scripts/dist "$T/two" "$version")
	cmp "$T/one/paceline-$version.tar.gz" "$T/two/paceline-$version.tar.gz"
	cd "$T"
	tar -xf "one/paceline-$version.tar.gz"
	cd "paceline-$version"
	grep -q "^paceline ($version) " debian/changelog
	not grep @DEPS@ debian/control
	mkdir -p build build-asan
	touch build/something build-asan/something
	scripts/dist "$T/three" "$version"
	cmp "$T/one/paceline-$version.tar.gz" "$T/three/paceline-$version.tar.gz"
	# Nothing in it knows where it was made.
	[ "$(make -s -n dist | grep -c "scripts/dist build $version")" = 1 ]
}

# The one build that is made from the file: without optimisation, which takes half of the time.
# bats test_tags=long
@test "deb: builds from the file, lintian finds nothing; installs, runs, and is removed" {
	command -v dh >/dev/null || skip "no debhelper here"
	command -v lintian >/dev/null || skip "no lintian here"
	local deb
	run env DEB_BUILD_OPTIONS="noopt nodoc nocheck noautodbgsym" make -s deb BUILD="$T/b"
	echo "$output"
	[ "$status" = 0 ]
	not grep '^[EW]: ' <<<"$output"
	deb=$(ls "$T"/b/paceline_*.deb)
	dpkg-deb -f "$deb" Depends | grep libevent
	dpkg-deb -c "$deb" >"$T/list"
	grep -q ' ./usr/bin/trainctl$' "$T/list"
	grep -q ' ./usr/share/bash-completion/completions/paceline$' "$T/list"
	grep -q ' ./usr/share/zsh/vendor-completions/_paceline$' "$T/list"
	grep -q ' ./usr/lib/systemd/user/trainctl@.service$' "$T/list"
	not grep -E 'installed$|/usr/local|march=native' "$T/list"
	mkdir -p "$T/guest"
	cp "$deb" "$T/guest/paceline.deb"
	cp tests/smoke "$T/guest/smoke"
	cat >"$T/guest/script" <<-'S'
		set -e
		dpkg -i paceline.deb
		[ "$(id -un paceline)" = paceline ]
		grep -q ^ExecStart=/usr/bin/trainctl "$(systemctl show -p FragmentPath --value trainctl@a)"
		chmod o+rx .
		[ "$(command -v trainctl)" = /usr/bin/trainctl ]
		cd /
		runuser -u paceline -- "$OLDPWD/smoke"
		dpkg -L paceline >/run/list
		dpkg -P paceline
		while read -r name; do
			if [ -f "$name" ]; then echo "$name is still there"; false; fi
		done </run/list
	S
	status=0
	tests/guest "$T/guest" "$T/guest/script" >"$T/said" 2>&1 || status=$?
	cat "$T/said"
	if [ "$status" = 77 ]; then
		# No machine for it: from a directory, as it is.
		dpkg-deb -x "$deb" "$T/x"
		PATH=$T/x/usr/bin:$PATH tests/smoke
		skip "built, unpacked and run; not installed: $(tail -n 1 "$T/said")"
	fi
	[ "$status" = 0 ]
}

# ---- completion ----

# typed: the programs that people start.
typed() { ls "$BIN" | grep -vxFf "$PACELINE_ROOT/scripts/libexec"; }

# lines: each program, and each command of it, with -- behind; and what its --help and its page have.
option_lines() {
	local program command
	for program in $(typed); do
		if "$program" --help | grep -q '^usage: [a-z-]* COMMAND'; then
			for command in $("$program" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
				echo "$program $command --:" $("$program" "$command" --help | options_of_help)
			done
		else
			echo "$program --:" $("$program" --help | options_of_help) \
				$(sed -n 's/^\.It Fl \([A-Za-z] , Fl \)\?Fl \([a-z0-9-]*\).*/--\2/p' \
					"$PACELINE_ROOT"/man/"$program".[1-8])
		fi
	done
}
options_of_help() { grep -oE '^  (-[A-Za-z], )?--[a-z0-9-]+' | grep -oE -e '--[a-z0-9-]+'; }

# offers all LINES: in $T/offered, "LINE -> WORD...", there is each word of LINES, "LINE: WORD...".
offers_all() {
	awk '
	NR == FNR { at = index($0, " -> "); said[substr($0, 1, at - 1)] = substr($0, at + 3) " "; next }
	{
		at = index($0, ":")
		line = substr($0, 1, at - 1)
		n = split(substr($0, at + 1), word, " ")
		for (i = 1; i <= n; i++)
			if (!index(said[line], " " word[i] " ")) { print line ": " word[i] " is not offered"; missing = 1 }
		looked += n
	}
	END { exit missing || looked < 150 }' "$T/offered" "$1"
}

# What is typed, and all that is offered then. Of KEY= zsh gets the = apart.
values() {
	cat <<-'END'
		trainctl re -> rebalance report
		trainctl status -j  -> adult clicks
		trainctl status -j cl -> clicks
		trainctl report --job=a -> adult
		trainctl run x.env --set SYNC= -> allreduce asp bsp delay: late: mode: ssp:
		trainctl run x.env -s MODEL=w -> wdl
		trainctl run --set=MODEL=w -> wdl
		trainctl run x.env --set SOLUTION=ant -> antdt-dd antdt-nd
		trainctl run x.env --set DATA=row -> rows.csv
		trainctl run x.env --set CHECKPOINT=ke -> keep:
		trainctl run x.env --set CHECKPOINT=60,ke -> 60,keep:
		trainctl run x.env -s BATCH=9,sc -> 9,scaling:linear 9,scaling:none 9,scaling:sqrt
		trainctl run j -> job.env
		trainctl init row -> rows.csv
		trainctl solve ba -> backup:
		trainctl solve lb -> lb-bsp lb-bsp-gpu
		bs-solve -m s -> share step
		res-plan -s a -> adjust auto
		xfer-sched -m s -> ssp sync
		speed-predict --model=n -> narx
		ps-server --servers a.sock,b -> a.sock,b.sock
		bpt-monitor --log row -> rows.csv
		bpt-monitor --short 5 -> 
		ckpt pr -> prune
	END
}

values_setup() {
	mkdir -p "$T/home/paceline/adult" "$T/home/paceline/clicks" "$T/here"
	touch "$T/home/paceline/adult/job.env" "$T/home/paceline/clicks/job.env"
	touch "$T/here/rows.csv" "$T/here/job.env" "$T/here/job.log" "$T/here/a.sock" "$T/here/b.sock"
}

# bash_offers < lines: as readline asks, which cuts at = and :, and wants what stands behind them. In a
# bash of its own: here bats looks at each command, and a line would take half a second.
bash_offers() { bash --norc -c "$(declare -f offers); . '$T/build/completion/paceline'; offers"; }
offers() {
	local line
	while IFS= read -r line; do
		read -ra COMP_WORDS <<<"${line//[:=]/ & }"
		[[ $line != *[\ :=] ]] || COMP_WORDS+=('')
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_paceline "${COMP_WORDS[0]}"
		echo "$line ->" $(printf '%s\n' "${COMPREPLY[@]}" | sort)
	done
}

@test "completion in bash: every option of every program, and values" {
	built
	option_lines >"$T/lines"
	cut -d : -f 1 "$T/lines" | bash_offers >"$T/offered"
	offers_all "$T/lines"
	values_setup
	cd "$T/here"
	values >"$T/values"
	sed 's/ -> .*//' "$T/values" | bash_offers | sed 's/ ->$/ -> /' | diff "$T/values" -
	# All words that begin so stand for all keys.
	bash_offers <<<'trainctl run x.env --set ' >"$T/offered"
	for key in $(trainctl init --keys | sed -n 's/^#\([A-Z][A-Z0-9_]*\)=.*/\1/p'); do
		grep -q " $key=" "$T/offered"
	done
	# A job that runs: its nodes.
	cd "$T"
	job EPOCHS=9999
	begin job
	wait_for 'trainctl status --run-dir "$T/run" | grep -q "id=w1 "'
	bash_offers <<<"trainctl kill-restart --run-dir $T/run w" >"$T/offered"
	[ "$(cat "$T/offered")" = "trainctl kill-restart --run-dir $T/run w -> w0 w1" ]
}

@test "completion in bash: bash-completion finds it where install puts it" {
	[ -e /usr/share/bash-completion/bash_completion ] || skip "no bash-completion here"
	built
	PREFIX=$T/p scripts/install "$T/build"
	run -0 env XDG_DATA_DIRS="$T/p/share" BASH_COMPLETION_USER_DIR="$T/none" bash --norc -ic '
		. /usr/share/bash-completion/bash_completion
		for program; do _completion_loader "$program"; complete -p "$program"; done' bash $(typed)
	[ "$(grep -c -- '-F _paceline' <<<"$output")" = "$(typed | wc -l)" ]
}

@test "completion in zsh: every option of every program, and values" {
	command -v zsh >/dev/null || skip "no zsh here"
	built
	option_lines >"$T/lines"
	cut -d : -f 1 "$T/lines" | tests/complete.zsh "$T/build/completion" >"$T/offered"
	offers_all "$T/lines"
	values_setup
	cd "$T/here"
	values >"$T/values"
	sed 's/ -> .*//' "$T/values" | "$PACELINE_ROOT/tests/complete.zsh" "$T/build/completion" >"$T/offered"
	# zsh has put what is before the comma aside.
	sed -i 's/ -> [a-z0-9.]*,/ -> /; / -> scaling/s/ 9,/ /g' "$T/values"
	diff "$T/values" "$T/offered"
}
