export { createDemoIdp, type DemoClient, type DemoIdpOptions } from './idp.ts'
export { PEOPLE, type Person } from './people.ts'
export { type DemoIdp, startDemoIdp } from './start.ts'
