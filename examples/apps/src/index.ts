export { APPS, type AppName, createApp } from './app.ts'
