# hosttest: what a machine gives; hosts compared.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

teardown_more() { hosts_down; }

@test "help, version, usage" {
	run hosttest --help
	[ "$status" -eq 0 ]
	[[ $output == usage:* ]]
	run hosttest --version
	[ "$status" -eq 0 ]
	[[ $output == "hosttest "* ]]
	run hosttest --by pigeon h1
	[ "$status" -eq 64 ]
	run hosttest -- 'a b'
	[ "$status" -eq 64 ]
	[[ $output == *"'a b' is no name of a host"* ]]
}

@test "this machine" {
	hosttest --seconds 0.1 >out
	[ "$(wc -l <out)" = 1 ]
	[ "$(field cores <out)" -ge 1 ]
	[ "$(field compute <out)" -gt 1000000 ]
	[ "$(field memory <out)" -gt 1000000 ]
	[ "$(field wrong <out)" = 0 ]
	hosttest . >out
	[ "$(field name <out)" = . ]
	[ "$(field state <out)" = good ]
	[ "$(field link <out)" = "" ]
}

@test "a host that is not reached is bad" {
	mkdir bin
	printf '#!/bin/sh\necho "ssh: no route to host" >&2\nexit 255\n' >bin/ssh
	chmod +x bin/ssh
	PATH=$T/bin:$PATH run hosttest . nowhere
	[ "$status" -eq 1 ]
	[[ $output == *"host-test name=nowhere compute= memory= link= state=bad why="* ]]
	[[ $output == *"host-test name=. "*" state=good why="* ]]
}

@test "hosts: the one with a slow link is named" {
	command -v ssh >/dev/null || skip "no ssh here"
	hosts_up -s
	hosts_link h2 1mbit
	run on h0 hosttest . h1 h2
	[ "$status" -eq 1 ]
	[[ $output == *"host-test name=h2 "*" state=bad why=link:"* ]]
}
