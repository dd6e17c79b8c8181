import { pagesIn } from '@gatehouse/service-kit'
import { DETAILS } from './details-style.ts'

/** Creates a page in the style of this service. */
export const page = pagesIn(`
main{display:grid;gap:1.5rem}
h2{font-size:1.1rem}
p,small,dt,footer,.muted{color:var(--muted)}
footer{font-size:.85rem}
form{display:flex;gap:.5rem}
label{font-weight:600}
input,button,.button{min-height:2.75rem;padding:.4rem .9rem;border:1px solid var(--line);border-radius:.75rem;background:var(--card);color:inherit;font:inherit}
input{min-width:0;border-color:var(--muted)}
button,.button{display:inline-flex;align-items:center;font-weight:600;text-decoration:none;cursor:pointer}
button:hover,.button:hover{border-color:currentColor}
.main{justify-content:center;background:var(--accent);border-color:transparent;color:var(--on)}
.who{flex-wrap:wrap;align-items:center;gap:.25rem 1rem;font-size:.9rem}
.who button{min-height:2.25rem;padding:.25rem .75rem}
.head{display:flex;flex-wrap:wrap;align-items:end;justify-content:space-between;gap:1rem}
.search{flex:0 1 26rem;flex-wrap:wrap}
.search input{flex:1 1 10rem}
.field{display:flex;align-items:center;gap:.5rem;min-height:2.75rem;padding:.4rem .9rem;border:1px solid var(--muted);border-radius:.75rem;background:var(--card);color:var(--muted);font-size:.9rem;text-decoration:none}
.field strong{color:var(--ink)}
.fresh{font-size:.85rem}
.field strong{flex:none}
.ahead{display:grid;gap:.5rem}
.ahead .key{display:flex;flex-wrap:wrap;gap:0 .9rem;font-size:.85rem}
.bars{width:100%;height:7rem;border-bottom:1px solid var(--muted)}
.renewals{fill:var(--accent)}
.ends{fill:var(--warn)}
.edges{display:flex;justify-content:space-between;font-size:.8rem}
.ahead table{border-spacing:1rem .1rem;text-align:end}
.card{padding:1.5rem;border:1px solid var(--line);border-radius:1rem;background:var(--card)}
.small{display:grid;gap:1rem;width:min(100%,26rem);margin:8vh auto 0;padding:2rem 1.75rem}
.small h1{font-size:1.5rem}
.small form{display:grid}
.small form button,.small input+label,.small textarea+label{margin-top:.5rem}
.small pre,.empty pre,.notice pre{padding:.75rem 1rem;border-radius:.75rem;background:var(--page);white-space:pre-wrap}
.wrong{color:var(--bad)}
.empty{display:grid;gap:.75rem;padding:3rem 1.5rem;text-align:center;justify-items:center}
.empty pre{text-align:start}
.failures{border-inline-start:4px solid var(--bad)}
.failures ul{display:grid;gap:1rem;margin-top:.75rem}
ul{list-style:none;padding:0}
.failures b{display:block}
.cause{color:var(--ink)}
.list{padding:0}
.legend,.row{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.25fr) 11.5rem;align-items:center;gap:0 1.5rem;padding:.6rem 1.5rem}
.legend{padding-top:1rem;font-size:.8rem}
.legend .key{display:flex;flex-wrap:wrap;gap:0 .9rem}
.key span{display:inline-flex;align-items:center;gap:.35rem}
.key svg{width:1rem;height:.75rem}
.list li{border-top:1px solid var(--line)}
.row{color:inherit;text-decoration:none}
.row:hover{background:color-mix(in srgb,var(--accent) 6%,transparent)}
.list li:last-child .row{border-radius:0 0 1rem 1rem}
.name{min-width:0}
.name b{display:block;font-weight:600;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.name small{display:block;line-height:1.2}
.line,.axis{display:block;width:100%;height:1.9rem;overflow:visible}
.axis{height:1.2rem;fill:var(--muted);font-size:.75rem}
.axis text{text-anchor:middle}
.axis .now{fill:var(--ink);font-weight:600}
.past{fill:color-mix(in srgb,var(--muted) 30%,transparent)}
.left{fill:var(--tone)}
line{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:2 2}
circle{fill:var(--card);stroke:var(--tone);stroke-width:2.5}
.list{--tone:var(--accent)}
.unrenewed{--tone:var(--warn)}
.failing,.ended{--tone:var(--bad)}
.state{display:flex;align-items:center;gap:.5rem;font-size:.9rem}
.state svg{flex:none;width:1rem;fill:none;stroke:var(--tone);stroke-width:2.5;stroke-linecap:round;stroke-linejoin:round}
.unrenewed .state,.failing .state,.ended .state{color:var(--tone);font-weight:600}
.facts{display:grid;gap:.75rem;padding:.25rem 1.5rem 1.25rem;font-size:.9rem}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,14rem),1fr));gap:.6rem 1.5rem}
dl .wide{grid-column:1/-1}
dd code{display:block}
dd span{display:inline-block;margin-inline-end:.75rem}
.pages{display:flex;flex-wrap:wrap;gap:.75rem}
.filters{display:grid;gap:.25rem}
.choices{display:flex;align-items:baseline;gap:0 .75rem;font-size:.9rem}
.choices>b{flex:none;width:3.5rem;color:var(--muted);font-weight:600}
.choices ul{display:flex;flex-wrap:wrap;gap:.25rem;min-width:0}
.choices a{display:block;padding:.2rem .6rem;border-radius:.6rem;color:inherit;text-decoration:none}
.choices a:hover{text-decoration:underline}
.choices [aria-current]{background:color-mix(in srgb,var(--accent) 16%,transparent);font-weight:600}
@media(max-width:44rem){.legend,.row{grid-template-columns:minmax(0,1fr);padding-inline:1rem}.row .line{order:3}.state{order:2}.facts{padding-inline:1rem}.card.empty,.failures{padding:1.25rem 1rem}.search{flex:1 1 100%}}
@media(forced-colors:active){.renewals{fill:CanvasText}.ends{fill:Highlight}.choices [aria-current]{outline:2px solid Highlight}.past{fill:GrayText}.left{fill:CanvasText}line,circle{stroke:CanvasText}}
${DETAILS}`)
