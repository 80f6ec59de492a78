/*
 * A server that leads, and its standby, which leads when it dies (ps-server --followed): two workers,
 * the lead with part 0, its standbys, part 1 and shardd, under ASP.  The lead dies up to DEATHS times,
 * at any step.  What it sent may be lost, or be read late: by part 1 after orders of the next lead, by
 * shardd after that has its term.
 *
 *     spin -search -O2 lead.pml                 no error
 *     spin -DDEATHS=2 -search -O2 lead.pml      the standby dies, too, after it has led
 *     spin -DFAULT=1 -search -O2 lead.pml       1 to 7: each must find one (tests/model/run)
 *
 * Checked: both parts apply the same rows in the same order, each row once, and only what shardd
 * settled; a part that is one unit behind holds what was settled last.
 */
#ifndef ROWS
#define ROWS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 the lead settles before its standby holds
 *  2 shardd takes settles of an older term
 *  3 the new lead does not have applied what is only held
 *  4 a worker repeats its push to the new lead, without asking shardd for its rows
 *  5 a standby's copy lacks what is held
 *  6 a new lead begins where its part is, not where shardd is
 *  7 a part takes a hold of the lead before (DEATHS=2)
 */

mtype = { stage, hold, apply, held };       /* held: apply what is held under this round */
chan P = [3] of { mtype, byte, byte, byte }; /* lead to part 1: worker, name, round or units before */
chan O = [3] of { mtype, byte, byte, byte }; /* the same, of the lead before */
chan A = [3] of { byte };                   /* answers to a hold: its round */
chan S = [4] of { mtype, byte, byte, byte }; /* part 0 to its standby, */
chan B = [4] of { byte };                   /* and its answers */
chan Q = [3] of { byte, byte, byte, byte }; /* lead to shardd: term, round, worker, name */
chan R = [3] of { byte, byte };             /* and its answers: term, whether it was taken */

#define NAMES (ROWS + DEATHS + 2)
#define staged(p, w, n) st[(p) * 2 * NAMES + (w) * NAMES + (n)]
byte todo = ROWS, back[ROWS + 1];           /* rows not handed out yet; rows that came back */
byte hand[2], name[2], row_of[2 * NAMES];   /* of a worker: the row, the push for it */
byte term = 1, note, note_it, done; bool settled[ROWS + 1];
byte ws[2], wlife[2];                       /* workers: step, the lead to which they have pushed */
byte life, deaths, rounds; bool dead, copied;
byte pend[2], said[2];                      /* lead: pushes that have come; that were applied */
byte it, round, cw, cn, ls; bool ha, hb;    /* units; the round, its push, step; who holds it */
bool st[6 * NAMES]; byte hr[3], hw[3], hn[3], app[3]; /* part 0, part 1, the standby */
byte was[3 * ROWS];                         /* the rows that each has applied */
hidden byte x, y, z, u; hidden mtype m;

#define some (todo || back[1] || back[ROWS])
inline take_row(w) {
	if
	:: back[1] -> x = 1; back[1] = 0
	:: !back[1] && back[ROWS] -> x = ROWS; back[ROWS] = 0
	:: else -> x = todo; todo--
	fi;
	hand[w] = x; name[w]++; assert(name[w] < NAMES); row_of[NAMES * w + name[w]] = x
}

proctype Worker(byte w) {
	do
	:: d_step { ws[w] == 0 && some -> take_row(w); staged(1, w, name[w]) = 1; ws[w] = 1 }
	:: d_step { ws[w] == 1 && !dead && nfull(S) -> staged(0, w, name[w]) = 1; S!stage, w, name[w], 0;
		pend[w] = name[w]; wlife[w] = life; ws[w] = 2 }
	:: d_step { ws[w] == 2 && said[w] == name[w] -> ws[w] = 0 }
	/* the next lead does not know it: it starts over, and what is in its hand comes back */
	:: d_step { ws[w] == 2 && said[w] != name[w] && !dead && wlife[w] != life ->
		if
		:: FAULT == 4 -> x = row_of[NAMES * w + name[w]]; name[w]++; hand[w] = x;
			row_of[NAMES * w + name[w]] = x; staged(1, w, name[w]) = 1; ws[w] = 1
		:: else -> if :: hand[w] -> back[hand[w]] = 1; hand[w] = 0 :: else fi; ws[w] = 0
		fi }
	:: ws[w] == 0 && done == ROWS -> break
	od
}

inline do_apply(p) {
	assert(staged(p, hw[p], hn[p]) && app[p] < ROWS);
	u = row_of[NAMES * hw[p] + hn[p]];
	assert(settled[u]);
	was[p * ROWS + app[p]] = u;
	app[p]++; staged(p, hw[p], hn[p]) = 0
}

proctype Lead() {
end:	do
	:: d_step { !dead && ls == 0 && (pend[0] || pend[1]) && nfull(P) && nfull(S) ->
		cw = (pend[0] -> 0 : 1); cn = pend[cw]; pend[cw] = 0;
		rounds++; round = rounds; ls = 1; ha = 0; hb = 0;
		hr[0] = round; hw[0] = cw; hn[0] = cn;
		P!hold, cw, cn, round; S!hold, cw, cn, round }
	:: d_step { !dead && ls == 1 && nempty(A) -> A?x; ha = (ha || x == round) }
	:: d_step { !dead && ls == 1 && nempty(B) -> B?x; hb = (hb || x == round) }
	:: d_step { !dead && ls == 1 && ha && (hb || FAULT == 1) && nfull(Q) -> Q!term, round, cw, cn; ls = 2 }
	:: d_step { !dead && nempty(R) && nfull(P) && nfull(S) -> R?x, y;
		if
		:: x != term || ls != 2 -> skip /* to the lead before */
		:: else -> assert(y); do_apply(0); P!apply, cw, cn, it; S!apply, cw, cn, it;
			it++; said[cw] = cn; ls = 0
		fi }
	od
}

proctype Shardd() {
end:	do
	:: d_step { nempty(Q) && nfull(R) -> Q?x, y, z, u;
		if
		:: (x == term || FAULT == 2) && hand[z] && name[z] == u ->
			note = y; note_it = done; done++; settled[hand[z]] = 1; hand[z] = 0; R!x, 1
		:: else -> R!x, 0
		fi }
	od
}

inline obey() {
	if
	:: m == hold && (z > hr[1] || FAULT == 7) -> hr[1] = z; hw[1] = x; hn[1] = y; A!z
	:: m == hold && z <= hr[1] && FAULT != 7 /* of a lead before: refused */
	:: m == apply && z >= app[1] -> assert(z == app[1]); hw[1] = x; hn[1] = y; do_apply(1)
	:: m == held && x >= app[1] -> assert(x == app[1] && z == hr[1]); do_apply(1)
	:: (m == apply && z < app[1]) || (m == held && x < app[1])
	fi
}

proctype Part() {
end:	do
	:: d_step { nempty(P) && nfull(A) -> P?m, x, y, z; obey() }
	:: d_step { nempty(O) && nfull(A) -> O?m, x, y, z; obey() }
	:: d_step { nempty(O) -> O?_, _, _, _; do :: nempty(O) -> O?_, _, _, _ :: empty(O) -> break od; skip }
	od
}

inline copy() {
	hr[2] = (FAULT == 5 -> 0 : hr[0]); hw[2] = hw[0]; hn[2] = hn[0]; app[2] = app[0];
	x = 0; do :: x < ROWS -> was[2 * ROWS + x] = was[x]; x++ :: else -> break od;
	x = 0; do :: x < 2 * NAMES -> st[4 * NAMES + x] = st[x]; x++ :: else -> break od;
	skip
}

proctype Standby() {
end:	do
	:: d_step { nempty(S) && nfull(B) -> S?m, x, y, z;
		if
		:: m == stage -> staged(2, x, y) = 1
		:: m == hold -> hr[2] = z; hw[2] = x; hn[2] = y; B!z
		:: m == apply -> do_apply(2)
		fi }
	/* It leads, with what it has read; the next standby is a copy of it. */
	:: d_step { dead && empty(O) -> dead = 0; life++; term++;
		do :: nempty(S) -> S?_, _, _, _ :: empty(S) -> break od;
		do :: nempty(B) -> B?_ :: empty(B) -> break od;
		do :: nempty(P) -> P?m, x, y, z; O!m, x, y, z :: empty(P) -> break od;
		do :: nempty(A) -> A?_ :: empty(A) -> break od;
		hr[0] = hr[2]; hw[0] = hw[2]; hn[0] = hn[2]; app[0] = app[2];
		x = 0; do :: x < ROWS -> was[x] = was[2 * ROWS + x]; x++ :: else -> break od;
		x = 0; do :: x < 2 * NAMES -> st[x] = st[4 * NAMES + x]; x++ :: else -> break od;
		it = (done && FAULT != 6 -> note_it + 1 : app[0]);
		pend[0] = 0; pend[1] = 0; ls = 0;
		if
		:: it && FAULT != 3 ->
			if
			:: app[0] < it -> assert(app[0] + 1 == it && hr[0] == note); do_apply(0)
			:: else
			fi;
			P!held, it - 1, 0, note
		:: else
		fi;
		copy() }
	/* another one takes its place, once */
	:: d_step { !dead && !copied && nempty(S) -> copied = 1;
		do :: nempty(S) -> S?_, _, _, _ :: empty(S) -> break od;
		do :: nempty(B) -> B?_ :: empty(B) -> break od;
		hb = 1;
		copy() }
	od
}

proctype Death() {
	do
	:: d_step { !dead && deaths < DEATHS -> dead = 1; deaths++ }
	:: deaths == DEATHS -> break
	:: done == ROWS && app[0] == ROWS && app[1] == ROWS -> break
	od
}

proctype Check() {
	!dead && done == ROWS && app[0] == ROWS && app[1] == ROWS; /* or this never ends */
	assert(was[0] == was[ROWS] && was[1] == was[ROWS + 1] && was[0] != was[1])
}

init { atomic {
	run Worker(0); run Worker(1); run Lead(); run Shardd(); run Part(); run Standby(); run Death(); run Check()
} }
