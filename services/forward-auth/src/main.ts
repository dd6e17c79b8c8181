#!/usr/bin/env node
import { runService } from '@gatehouse/service-kit/program'
import { PROGRAM } from './cli/program.ts'

void runService(PROGRAM, process)
