/*
 * Pushes that are announced (lib/lead/gate_grants.c; announce in paceline-protocol(7)) as a Spin
 * model: NW workers, a lead, one other part and shardd under ASP, or SSP.  A batch is one row.
 * What goes wrong, each at any step and as often as its macro says:
 *
 *     DEATHS  a worker dies              HANG   one stops for ever
 *     CUTS    a connection is cut: the worker says its request again, and the first may still be
 *             read, at any later time    LETS   a worker that lives is let go, or fenced
 *     LEADS   the lead dies: back to the first checkpoint     HEIRS  it is handed over
 *     MOVES   parameters move: what was pushed by the old map is pushed again
 *
 *     spin -search -O2 grants.pml               no error
 *     spin -DFAULT=1 -DHANG=1 -search grants.pml   1 to 15: each must find one (tests/model/run)
 *
 * A grant may be given up at any time: no clock.  With LINKS=1 a grant also comes at any time, or the
 * push is dropped then, as a schedule says.  With TIMES=0 none is given up, unless a worker stops.
 *
 * Checked: no commit has a delay over the bound; a push that comes while its grant holds is not
 * dropped; each row is applied once or given back, and the worker is told which; all parts have
 * staged by the map in force what is settled; nobody waits for ever for one who is not dead or
 * stopped.  Left out: workers that push other numbers than they announced; standbys (standby.pml);
 * checkpoints but the first (batch.pml).
 */
#ifndef NW
#define NW 2
#endif
#ifndef R
#define R 3     /* rows */
#endif
#ifndef D
#define D (NW - 2) /* the bound of the delay: less than all workers together need */
#endif
#ifndef SSP
#define SSP 99  /* the staleness; 99: ASP */
#endif
#ifndef TAKES
#define TAKES (R + 2) /* batches in all: a path with more ends */
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef HANG
#define HANG 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef LETS
#define LETS 0
#endif
#ifndef LEADS
#define LEADS 0
#endif
#ifndef HEIRS
#define HEIRS 0
#endif
#ifndef MOVES
#define MOVES 0
#endif
#ifndef LINKS
#define LINKS 0
#endif
#ifndef TIMES
#define TIMES 1
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 a grant is never given up
 *  2 it is given whatever was granted before
 *  3 a commit does not wait for grants
 *  4 the grant of one that is out stays
 *  5 what comes late is not judged again
 *  6 when a grant is given up, what waited for it is not looked at
 *  7 what was announced and dropped, and is announced again, is new
 *  8 the heir does not know that it was dropped
 *  9 what is being settled does not count when a grant is given
 * 10 what was done counts for the worker's next life, too
 * 11 shardd does not compare generations
 * 12 the lead does not compare generations
 * 13 the lead takes a push by an old map
 * 14 what is held stays held when the map changes
 * 15 who is out is told that what was dropped was applied
 */

mtype = { announce, push, granted, applied, dropped, fenced, other_map };
chan W[NW] = [1] of { mtype };             /* worker and lead: a request, or its answer */
chan Old[NW] = [2] of { mtype, byte, byte, byte, byte }; /* on a connection that was cut */

byte free = R, done, takes; bool over;     /* shardd: rows */
byte hand[NW];                             /* the sequence of the push that its row is for */
byte life[NW] = 1;                         /* the generation in force, which the worker has */
mtype ask[NW];                             /* workers: the request that is open; 0: none */
byte st[NW], seq[NW], pulled[NW];          /* 0 idle, 1 has computed, 2 announces, 3 has a grant, 4 has
                                              staged at the other part, 5 pushes */
bool joined[NW], dead[NW], hung[NW]; byte wmap[NW];
byte deaths, hangs, cuts, lets, leads, heirs, moves;

byte map, staged[NW];                      /* the other part; staged: a sequence, or nothing */

byte version, still; bool settling;        /* the lead; still: 1 it will stand, 2 it stands */
byte gen[NW], fence[NW]; bool waits[NW];   /* 0: out; what is fenced; the open request was read and is
                                              not answered */
byte an[NW], as[NW], ap[NW];               /* announced: 0 no, 1 granted, 2 given up, 3 asked; sequence; pulled */
byte hs[NW], hp[NW]; bool hl[NW], hg[NW], hk[NW]; byte hm[NW]; /* held: sequence, pulled, late,
                                              granted, kept; map */
byte ss[NW], sg[NW], sp[NW], so[NW]; bool sl[NW]; /* sent: also generation, its place from 1; 0: it has none */
byte ds[NW], dg[NW]; bool dd[NW];          /* done: the last sequence, its generation, whether dropped */
byte ws[NW], clk[NW];                      /* SSP: applied, and the answer waits */
byte com[NW];                              /* the last sequence that was committed */

hidden byte i, x, y, z, v, due, fits, pl[D + 1], ts, tp, tg, tw; hidden mtype tm;

#define answer(w, m) if :: waits[w] -> waits[w] = 0; W[w]!m :: else fi
#define is_slower(w) (gen[w] && !(st[w] == 0 && free == 0))
#define is_its(w, s, g) (hand[w] == (s) && (life[w] == (g) || FAULT == 11))

/* ---- grants ---- */

inline deadline(p) {
	if
	:: p + D < v -> fits = 0
	:: p < v && p + D >= v -> pl[D + p - v]++
	:: else -> pl[D]++
	fi
}

/* Whether all grants can be kept when the next commit meets v: without `gone`, and with `more`. */
inline fit(gone, more) {
	fits = 1; due = 0;
	for (i : 0 .. D) { pl[i] = 0 }
	for (i : 0 .. NW - 1) {
		if :: i != gone && an[i] == 1 -> deadline(ap[i]) :: else fi;
		if :: i != gone && hs[i] && hg[i] && !hl[i] -> deadline(hp[i]) :: else fi
	}
	if :: more != 99 -> deadline(more) :: else fi;
	for (i : 0 .. D) { due = due + pl[i]; if :: due > i + 1 -> fits = 0 :: else fi }
}

inline forget_grant(w) { an[w] = 0; as[w] = 0; ap[w] = 0 }
inline forget_held(w) { hs[w] = 0; hp[w] = 0; hl[w] = 0; hg[w] = 0; hm[w] = 0 }
inline refuse(w, s, p) { hs[w] = s; hp[w] = p; hl[w] = 1; hg[w] = 0; hm[w] = map }

/* What is announced: yes or no. */
inline decide(w, s, p) {
	v = version;
	for (i : 0 .. NW - 1) { if :: so[i] && FAULT != 9 -> v++ :: else fi }
	fit(NW, p);
	if
	:: fits || FAULT == 2 || hs[w] -> an[w] = 1; as[w] = s; ap[w] = p; answer(w, granted)
	:: else -> refuse(w, s, p); forget_grant(w)
	fi
}

/* ---- units ---- */

inline oldest() { /* x; NW: there is none */
	x = NW; z = 99;
	for (i : 0 .. NW - 1) {
		if
		:: hs[i] && !hk[i] && hp[i] < z -> x = i; z = hp[i]
		:: else
		fi
	}
}

inline send_one() {
	settling = 1;
	ss[x] = hs[x]; sg[x] = gen[x]; sp[x] = hp[x]; sl[x] = hl[x]; so[x] = 0;
	assert(hl[x] || gen[x] != life[x] || (hm[x] == map && staged[x] == hs[x]));
	if :: !hl[x] -> y++; so[x] = y; v++ :: else fi;
	forget_held(x)
}

inline units_step() {
	if :: still == 1 && !settling -> still = 2 :: else fi;
	if
	:: !settling && still != 2 ->
		v = version; y = 0;
		oldest();
		do
		:: x == NW -> break
		:: else ->
			if
			:: !hl[x] && hp[x] + D < v && (FAULT != 5 || hg[x]) ->
				assert(!hg[x]); hl[x] = 1
			:: else
			fi;
			fits = 1;
			if :: !hl[x] && FAULT != 3 -> v++; fit(x, 99); v-- :: else fi;
			if :: fits -> send_one() :: else -> hk[x] = 1 fi;
			oldest()
		od;
		for (i : 0 .. NW - 1) { hk[i] = 0 }
	:: else
	fi;
	release()
}

inline tell(w) { if :: dd[w] -> answer(w, dropped) :: else -> answer(w, applied) fi }

inline release() {
#if SSP != 99
	z = 99;
	for (i : 0 .. NW - 1) { if :: is_slower(i) && clk[i] < z -> z = clk[i] :: else fi }
	for (i : 0 .. NW - 1) {
		if
		:: ws[i] && clk[i] <= z + SSP -> tell(i); ws[i] = 0
		:: else
		fi
	}
#endif
	x = 0; y = 0; z = 0; v = 0; due = 0; i = 0
}

/* What is being settled goes on: it is answered then. */
inline worker_out(w) {
	gen[w] = 0; fence[w] = 0;
	if :: FAULT != 4 -> forget_grant(w) :: else fi;
	if :: hs[w] && staged[w] == hs[w] -> staged[w] = 0 :: else fi;
	forget_held(w);
	if
	:: ws[w] -> if :: FAULT == 15 -> answer(w, applied) :: else -> tell(w) fi; ws[w] = 0
	:: !ws[w] && ss[w]
	:: else -> answer(w, fenced)
	fi
}

inline finish(w) {
	if :: sl[w] && sg[w] == life[w] && staged[w] == ss[w] -> staged[w] = 0 :: else fi;
	ds[w] = ss[w]; dg[w] = sg[w]; dd[w] = sl[w];
	if :: SSP != 99 && !sl[w] && sg[w] == gen[w] -> clk[w]++ :: else fi;
	if
	:: SSP != 99 && sg[w] == gen[w] -> ws[w] = ss[w]
	:: sg[w] == gen[w] || sg[w] == life[w] -> tell(w)
	:: else
	fi;
	ss[w] = 0; sg[w] = 0; sp[w] = 0; sl[w] = 0; so[w] = 0;
	if :: gen[w] && gen[w] == fence[w] -> worker_out(w) :: else fi
}

inline settled() { /* shardd has answered, in the order in which they were sent */
	settling = 0;
	for (y : 1 .. NW) {
		for (x : 0 .. NW - 1) {
			if
			:: so[x] == y && is_its(x, ss[x], sg[x]) ->
				assert(sp[x] + D >= version && st[x] == 5);
				version++; done++; hand[x] = 0; staged[x] = 0; com[x] = ss[x]
			:: so[x] == y && !is_its(x, ss[x], sg[x]) -> /* its rows went back */
				assert(dead[x] || sg[x] < life[x]);
				if :: gen[x] == sg[x] -> worker_out(x) :: else fi;
				ss[x] = 0; sg[x] = 0; sp[x] = 0; so[x] = 0
			:: else
			fi
		}
	}
	for (x : 0 .. NW - 1) {
		if :: ss[x] && sl[x] && is_its(x, ss[x], sg[x]) -> hand[x] = 0; free++ :: else fi;
		if :: ss[x] -> finish(x) :: else fi
	}
	units_step()
}

/* ---- requests ---- */

#define granted_again (an[w] && as[w] == ts)
#define is_done (ts <= ds[w] && (dg[w] == tg || FAULT == 10))
#define under_way ((hs[w] == ts && !(FAULT == 7 && hl[w])) || (ss[w] == ts && sg[w] == tg) || ws[w] == ts)

/* tm, ts, tp, tg, tw of worker w; `here`: on its connection of now. */
inline request(w, here) {
	waits[w] = waits[w] || here;
	if
	:: gen[w] == 0 || gen[w] == fence[w] || (gen[w] != tg && FAULT != 12) -> if :: here -> answer(w, fenced) :: else fi
	:: else ->
		if
		:: tm == announce && granted_again ->
			if :: here && an[w] != 3 -> answer(w, granted) :: else fi
		:: tm == push && tw != map && !is_done && FAULT != 13 ->
			if :: here -> answer(w, other_map) :: else fi
		:: !(tm == announce && granted_again) && !(tm == push && tw != map && !is_done && FAULT != 13) ->
			if
			:: under_way
			:: !under_way && is_done ->
				if
				:: here && ts == ds[w] && dd[w] -> answer(w, dropped)
				:: here && !(ts == ds[w] && dd[w]) -> answer(w, applied)
				:: else
				fi
			:: else ->
				assert(!hs[w] || FAULT == 7);
				if
				:: tm == announce && LINKS -> an[w] = 3; as[w] = ts; ap[w] = tp
				:: tm == announce && !LINKS -> decide(w, ts, tp)
				:: else ->
					hs[w] = ts; hp[w] = tp; hl[w] = 0; hm[w] = tw;
					hg[w] = (an[w] == 1 && as[w] == ts);
					forget_grant(w)
				fi;
				units_step()
			fi
		fi
	fi;
	ts = 0; tp = 0; tm = 0; tg = 0; tw = 0
}

#define reads(w)									\
	:: d_step { W[w]?[announce] || W[w]?[push] ->					\
		W[w]?tm; ts = seq[w]; tp = pulled[w]; tg = life[w]; tw = wmap[w]; request(w, 1) } \
	:: d_step { nempty(Old[w]) -> Old[w]?tm, ts, tp, tg, tw; request(w, 0) }	\
	:: d_step { dead[w] && gen[w] -> worker_out(w); units_step() }			\
	:: d_step { gen[w] && !dead[w] && lets < LETS && !over -> lets++; worker_out(w); units_step() } \
	:: d_step { gen[w] && ss[w] && lets < LETS && !over -> lets++; fence[w] = gen[w] } \
	:: d_step { LINKS && an[w] == 3 -> decide(w, as[w], ap[w]); units_step() }	\
	:: d_step { LINKS && an[w] == 3 ->						\
		refuse(w, as[w], ap[w]); forget_grant(w); units_step() }		\
	:: d_step { an[w] == 1 && (TIMES || hung[w]) && FAULT != 1 -> an[w] = 2;	\
		if :: FAULT != 6 -> units_step() :: else fi }

proctype Lead() {
end:	do
	reads(0)
	reads(1)
#if NW > 2
	reads(2)
#endif
	:: d_step { settling -> settled() }
	:: d_step { moves < MOVES && !still && !over -> moves++; still = (settling -> 1 : 2) }
	:: d_step { still == 2 -> still = 0; units_step() } /* nothing has moved */
	:: d_step { still == 2 -> still = 0; map++;
		for (x : 0 .. NW - 1) {
			staged[x] = 0;
			if :: hs[x] && FAULT != 14 -> forget_held(x); answer(x, other_map) :: else fi
		}
		units_step() }
	od
}

/* ---- workers ---- */

#define lives (!dead[w] && !hung[w] && !over)

inline give_back() { if :: hand[w] -> hand[w] = 0; free++ :: else fi }
inline next_life() { life[w]++; seq[w] = 0; com[w] = 0; st[w] = 0; ask[w] = 0; joined[w] = 0; staged[w] = 0 }

inline join() {
	gen[w] = life[w]; joined[w] = 1; z = 99;
	for (i : 0 .. NW - 1) { if :: i != w && gen[i] && clk[i] < z -> z = clk[i] :: else fi }
	clk[w] = (z == 99 -> 0 : z); z = 0; i = 0
}

proctype Worker(byte w) {
end:	do
	:: d_step { lives && st[w] == 0 && free && takes == TAKES -> over = 1 }
	:: d_step { lives && st[w] == 0 && free && takes < TAKES ->
		if :: joined[w] -> skip :: else -> join() fi;
		takes++; free--; seq[w]++; hand[w] = seq[w]; pulled[w] = version; wmap[w] = map; st[w] = 1;
		if :: SSP != 99 -> release() :: else fi }
	:: d_step { lives && st[w] == 1 -> st[w] = 2; ask[w] = announce; W[w]!announce }
	:: d_step { lives && st[w] == 2 && W[w]?[granted] -> W[w]?granted; st[w] = 3; ask[w] = 0 }
	:: d_step { lives && st[w] == 3 -> /* by the map in force, or it is told that one */
		if :: wmap[w] == map -> staged[w] = seq[w]; st[w] = 4 :: else -> wmap[w] = map fi }
	:: d_step { lives && st[w] == 4 -> st[w] = 5; ask[w] = push; W[w]!push }
	:: d_step { lives && W[w]?[other_map] -> W[w]?other_map; wmap[w] = map; ask[w] = 0;
		st[w] = (st[w] == 5 -> 3 : 1) }
	:: d_step { lives && W[w]?[dropped] -> W[w]?dropped;
		assert(com[w] != seq[w] && hand[w] == 0); st[w] = 0; ask[w] = 0;
		if :: SSP != 99 && free == 0 -> release() :: else fi }
	:: d_step { lives && W[w]?[applied] -> W[w]?applied;
		assert(st[w] == 5 && com[w] == seq[w]); st[w] = 0; ask[w] = 0;
		if :: SSP != 99 && free == 0 -> release() :: else fi }
	:: d_step { lives && W[w]?[fenced] -> W[w]?fenced; give_back(); next_life() }
	:: d_step { lives && deaths < DEATHS -> deaths++; dead[w] = 1; ask[w] = 0; waits[w] = 0;
		if :: W[w]?[announce] || W[w]?[push] -> W[w]?tm; Old[w]!tm, seq[w], pulled[w], life[w], wmap[w]
		:: else fi; tm = 0 }
	:: d_step { dead[w] && hand[w] -> give_back() } /* shardd sees it */
	:: d_step { lives && hangs < HANG -> hangs++; hung[w] = 1 }
	:: d_step { lives && ask[w] && cuts < CUTS && nfull(Old[w]) -> cuts++; /* it says it again */
		waits[w] = 0;
		if
		:: W[w]?[announce] || W[w]?[push] -> Old[w]!ask[w], seq[w], pulled[w], life[w], wmap[w]
		:: nempty(W[w]) && !(W[w]?[announce] || W[w]?[push]) -> W[w]?tm; W[w]!ask[w]
		:: empty(W[w]) -> W[w]!ask[w]
		fi; tm = 0 }
	od
}

/* The lead dies, or is handed over. */
proctype Heir() {
end:	do
	:: d_step { heirs < HEIRS && !over && !still -> heirs++;
		for (i : 0 .. NW - 1) {
			forget_grant(i); hg[i] = 0;
			if :: FAULT == 8 -> hl[i] = 0 :: else fi;
			do :: nempty(Old[i]) -> Old[i]?_, _, _, _, _ :: empty(Old[i]) -> break od;
			if :: waits[i] -> waits[i] = 0; W[i]!ask[i] :: else fi
		}
		units_step() }
	/* Members are those of before; all rows are back, and parts have what they had then. */
	:: d_step { leads < LEADS && !over -> leads++;
		version = 0; done = 0; free = R; settling = 0; still = 0;
		for (i : 0 .. NW - 1) {
			gen[i] = 0; fence[i] = 0; hand[i] = 0; clk[i] = 0; ws[i] = 0; ds[i] = 0; dg[i] = 0; dd[i] = 0;
			forget_grant(i); forget_held(i); staged[i] = 0;
			ss[i] = 0; sg[i] = 0; sp[i] = 0; so[i] = 0; sl[i] = 0;
			if :: waits[i] -> waits[i] = 0; W[i]!ask[i] :: else fi;
			if
			:: st[i] == 0 && !dead[i] && joined[i] -> life[i]++; seq[i] = 0; com[i] = 0; joined[i] = 0
			:: else
			fi
		}
		i = 0 }
	od
}

#define rests(w) (hung[w] || (dead[w] && !gen[w] && !hand[w]) || (!dead[w] && st[w] == 0 && !free))

proctype Check() {
	byte w;
	over || (rests(0) && rests(1) && rests(NW - 1)); /* or this never ends */
	d_step {
		ts = done;
		for (w : 0 .. NW - 1) { if :: hand[w] -> ts++ :: else fi }
		assert(ts + free == R); ts = 0
	}
}

init { atomic {
	run Worker(0); run Worker(1);
#if NW > 2
	run Worker(2);
#endif
	run Lead(); run Heir(); run Check()
} }
