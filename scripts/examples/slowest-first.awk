#!/usr/bin/awk -f
# A solution in three lines: restarts a node that takes twice as long as the mean of its role.
# In: a snapshot of bpt-monitor(8). Out: actions. Use: SOLUTION=/path/to/slowest-first.awk.
{ delete f; for (i = 2; i <= NF; i++) { split($i, kv, "="); f[kv[1]] = kv[2] } }
$1 == "node" && f["state"] == "up" && f["ratio-long"] >= 2 && f["restarts"] < 3 { print "action kind=kill-restart role=" f["role"], "id=" f["id"], "reason=ratio-" f["ratio-long"]; n++ }
END { if (!n) print "action kind=none reason=nobody-is-slow" }
