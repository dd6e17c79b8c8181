export { migrate, printMigrated, recognise } from './migrate.ts'
export { PROGRAMS } from './programs.ts'
